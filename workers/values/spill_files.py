"""Values on disk: what a worker with too little memory has written out until it is read again.

Rules of this file: one file per worker, without a name, so that nothing is left of it however the process ends; parts
of it are given out and taken back. What was spilled is gone from the file when nobody holds it any more.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from raygrad.errors import ExecutionError
from raygrad.proto.codec.values import Packed


class SpillFile:
    """The file of one worker, in the folder for temporary files (`TMPDIR`). Made when it is first written to."""

    def __init__(self) -> None:
        self._file: Any = None
        self._end = 0
        self._free: list[tuple[int, int]] = []
        """(offset, length) of parts that hold nothing, ascending, none beside another."""
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes of the values that are in it."""
        with self._lock:
            return self._end - sum(length for _, length in self._free)

    @property
    def size(self) -> int:
        """Its length."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def write(self, packed: Packed) -> Spilled:
        """Write a value, and return what reads it again.

        Raises:
            ExecutionError: the disk is full, or cannot be written to.
        """
        lengths = [len(buffer) for buffer in packed.buffers]
        try:
            with self._lock:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(prefix="raygrad-", buffering=0)
                    weakref.finalize(self, self._file.close)
                offset = self._allocated(sum(lengths))
            spilled = Spilled(self, packed.header, offset, lengths)
            for buffer, length in zip(packed.buffers, lengths, strict=True):
                done = 0
                while done < length:
                    done += os.pwrite(self._file.fileno(), cast(Any, buffer[done:]), offset + done)
                offset += length
        except OSError as error:
            raise ExecutionError(
                f"a value of {sum(lengths):,} bytes could not be spilled to '{tempfile.tempdir or 'disk'}' ({error}): "
                "set TMPDIR to a folder with more room, or give the session more memory"
            ) from error
        return spilled

    def read(self, offset: int, lengths: Sequence[int]) -> tuple[NDArray[np.uint8], ...]:
        """Return what was written there."""
        found: list[NDArray[np.uint8]] = []
        for length in lengths:
            buffer = np.empty(length, np.uint8)
            done = 0
            while done < length:
                done += os.preadv(self._file.fileno(), [cast(Any, buffer[done:])], offset + done)
            offset += length
            buffer.flags.writeable = False
            found.append(buffer)
        return tuple(found)

    def _allocated(self, length: int) -> int:
        """Return where so many bytes can be written."""
        for number, (offset, free) in enumerate(self._free):
            if free >= length:
                self._free[number : number + 1] = [(offset + length, free - length)] if free > length else []
                return offset
        self._end += length
        return self._end - length

    def release(self, offset: int, length: int) -> None:
        """Take back a part."""
        with self._lock:
            insort(self._free, (offset, length))
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


class Keeper(Protocol):
    """Who keeps values, and has them back."""

    def loaded(self, spilled: Spilled | None) -> Any:
        """Return the value that was spilled."""

    def unnoticed(self) -> AbstractContextManager[None]:
        """Return a block in which nothing is reported of what runs."""
        ...


class Away(ABC):
    """Stands for a value, under the value's own name, until somebody asks for it."""

    __slots__ = ()

    @abstractmethod
    def back(self, keeper: Keeper) -> Any:
        """Return the value, with the same bits."""


class Parked(Away):
    """Stands for a value while that is on disk."""

    __slots__ = ("sizes", "spilled")

    def __init__(self, spilled: Spilled, sizes: Sequence[tuple[str, int]]) -> None:
        self.spilled = spilled
        self.sizes = sizes
        """Per memory where it was, and will be, the bytes that it held there."""

    @property
    def nbytes(self) -> int:
        """Its bytes on disk."""
        return self.spilled.nbytes

    def back(self, keeper: Keeper) -> Any:
        return keeper.loaded(self.spilled)


class Spilled:
    """A value in the file; its part is taken back when this dies."""

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
