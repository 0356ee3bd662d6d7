"""Atomic replacement of files: a file appears with all of its content, or stays as it was.

The content is written to a temporary file in the same folder, brought to the disk, and renamed.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress


@contextmanager
def replaced_file(path: str) -> Generator[str]:
    """Yield the name of a temporary file, which takes the place of the file `path` when the block ends well; the file
    stays as it was when the block raises, or the process dies in it.

    Raises:
        OSError: the folder does not exist or cannot be written to, the disk is full, or `path` is no regular file.
    """
    whole = os.path.realpath(path)  # a link stays a link, to the new file
    if os.path.isdir(whole):
        raise IsADirectoryError(f"cannot save to {path!r}: it is a folder")
    if os.path.exists(whole) and not os.path.isfile(whole):
        raise OSError(f"cannot save to {path!r}: it is no regular file, and could not be replaced as a whole")
    folder, name = os.path.split(whole)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot save to {path!r}: there is no folder {folder!r}")
    _remove_leftovers(folder, name)
    part = os.path.join(folder, f".{name}.{_host()}-{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        yield part
        if os.path.exists(whole):
            shutil.copymode(whole, part)
        _bring_to_disk(part)
        os.replace(part, whole)
    except BaseException:  # of any kind: it goes on as it is
        with suppress(OSError):
            os.remove(part)
        raise
    _bring_to_disk(folder)


def _bring_to_disk(path: str) -> None:
    """Wait until a file, or the names in a folder, would survive the end of the machine."""
    if os.name == "nt" and os.path.isdir(path):  # which cannot open folders, nor needs it
        return
    handle = os.open(path, os.O_RDONLY if os.path.isdir(path) else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname())


def _remove_leftovers(folder: str, name: str) -> None:
    """Remove the temporary files of this file whose writers, processes of this machine, died while they wrote."""
    start = os.path.join(glob.escape(folder), glob.escape(f".{name}.{_host()}-"))
    for part in glob.glob(f"{start}*.part"):
        found = re.fullmatch(r"(\d+)-[0-9a-f]{8}", part.rpartition(f"{_host()}-")[2].removesuffix(".part"))
        if found is not None and not _is_alive(int(found[1])):
            with suppress(OSError):
                os.remove(part)


def _is_alive(process: int) -> bool:
    if os.name == "nt":  # where signal 0 ends a process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
