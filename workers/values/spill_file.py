"""The spill file of a worker: one file without a name, parts of which hold values while they are out of memory.

Nothing is left of it however the process ends. A part is reused once the last `FileRegion` that refers to it has died,
which may happen on any thread, and within any method of the file when cyclic garbage is collected.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import weakref
from bisect import insort
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from raygrad.errors import DiskFull, ExecutionError
from raygrad.proto.codec.values import Packed

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The error numbers of a disk, a quota and a file that can take no more."""


class SpillFile:
    """The file, in the folder for temporary files (`TMPDIR`). It is opened by the first write."""

    def __init__(self) -> None:
        self._file: Any = None
        self._end = 0
        self._free: list[tuple[int, int]] = []
        """(offset, length) of unused parts, ascending, none adjacent to another."""
        self._returned: deque[tuple[int, int]] = deque()
        """Parts that died and are not in `_free` yet: a region may die while its thread holds the lock."""
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes of the values in it."""
        with self._lock:
            self._reclaim()
            return self._end - sum(length for _, length in self._free)

    @property
    def size(self) -> int:
        """Its length."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def write(self, packed: Packed) -> FileRegion:
        """Write a value, and return the part of the file that holds it.

        Raises:
            DiskFull: the disk, or what this user or process may use of it, is full.
            ExecutionError: it cannot be written to.
        """
        lengths = [len(buffer) for buffer in packed.buffers]
        try:
            with self._lock:
                self._reclaim()
                if self._file is None:
                    self._file = tempfile.TemporaryFile(prefix="raygrad-", buffering=0)
                    weakref.finalize(self, self._file.close)
                offset = self._allocated(sum(lengths))
            region = FileRegion(self, packed.header, offset, lengths)
            for buffer, length in zip(packed.buffers, lengths, strict=True):
                done = 0
                while done < length:
                    done += os.pwrite(self._file.fileno(), cast(Any, buffer[done:]), offset + done)
                offset += length
        except OSError as error:
            if error.errno in FULL:
                raise disk_full(sum(lengths), error) from error
            raise ExecutionError(
                f"a value of {sum(lengths):,} bytes could not be spilled to '{tempfile.tempdir or 'disk'}' ({error}): "
                "set TMPDIR to a folder with more room, or give the session more memory"
            ) from error
        return region

    def read(self, offset: int, lengths: Sequence[int]) -> tuple[NDArray[np.uint8], ...]:
        """Return the buffers that were written at an offset.

        Raises:
            ExecutionError: the file cannot be read, or was cut short by others.
        """
        found: list[NDArray[np.uint8]] = []
        for length in lengths:
            buffer = np.empty(length, np.uint8)
            done = 0
            while done < length:
                try:
                    count = os.preadv(self._file.fileno(), [cast(Any, buffer[done:])], offset + done)
                except OSError as error:
                    raise ExecutionError(f"a spilled value of {length:,} bytes could not be read: {error}") from error
                if not count:
                    raise ExecutionError(f"a spilled value of {length:,} bytes is no longer in its file, which was cut")
                done += count
            offset += length
            buffer.flags.writeable = False
            found.append(buffer)
        return tuple(found)

    def release(self, offset: int, length: int) -> None:
        """Take back a part."""
        self._returned.append((offset, length))
        if self._lock.acquire(blocking=False):  # else whoever takes the lock next reclaims it
            try:
                self._reclaim()
            finally:
                self._lock.release()

    def _allocated(self, length: int) -> int:
        """Return an offset at which so many bytes can be written."""
        for number, (offset, free) in enumerate(self._free):
            if free >= length:
                self._free[number : number + 1] = [(offset + length, free - length)] if free > length else []
                return offset
        self._end += length
        return self._end - length

    def _reclaim(self) -> None:
        """Merge returned parts into the unused ones, and cut the file at its new end; with the lock held."""
        if not self._returned:
            return
        while self._returned:
            insort(self._free, self._returned.popleft())
        merged: list[tuple[int, int]] = []
        for start, free in self._free:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + free)
            else:
                merged.append((start, free))
        if merged and sum(merged[-1]) == self._end:
            self._end = merged.pop()[0]
            if self.size > self._end:  # a disk that was full has not taken all of it
                os.ftruncate(self._file.fileno(), self._end)
        self._free = merged


class FileRegion:
    """The part of a spill file that holds one value; it is given back when this dies."""

    __slots__ = ("__weakref__", "_file", "_header", "_lengths", "_offset", "nbytes")

    def __init__(self, file: SpillFile, header: bytes, offset: int, lengths: Sequence[int]) -> None:
        self._file = file
        self._header = header
        self._offset = offset
        self._lengths = lengths
        self.nbytes = sum(lengths)
        if sum(lengths):
            weakref.finalize(self, file.release, offset, sum(lengths)).atexit = False

    def read(self) -> Packed:
        """Return the value as it was written."""
        return Packed(self._header, self._file.read(self._offset, self._lengths))


def disk_full(size: int, error: OSError) -> DiskFull:
    """Return the error for a value of `size` bytes that could not be written."""
    folder = tempfile.gettempdir()
    return DiskFull(
        f"a value of {size:,} bytes could not be spilled to '{folder}', which is full ({error.strerror}): free some of "
        "it and run this again (what was stored before is there still), set TMPDIR to a folder with more room, or give "
        "the session more memory",
        folder,
        size,
    )
