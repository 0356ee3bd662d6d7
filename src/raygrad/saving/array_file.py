"""Safetensors files: named arrays with a text, checked by checksums, as `raygrad.save` writes them.

The text is in the metadata of the file, which other programs ignore; they find the arrays under their names. The
library `safetensors` is loaded when the first file is written or read.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import numpy as np

from raygrad.errors import BackendUnavailable, LoadError, SaveError

from .atomic_file import replaced_file

Array = np.ndarray[Any, Any]

VERSION: Final = 1
SUMS, TEXT = "raygrad", "raygrad.structure"
"""The keys of the metadata. Each file of raygrad has both: one alone is a sign of damage."""

LONGEST_HEADER: Final = 100_000_000
"""Bytes: readers of safetensors refuse a longer one."""

_DTYPES: Final = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "C64": "<c8",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
STORED: Final = frozenset(np.dtype(code) for code in _DTYPES.values())
"""The dtypes that a file can hold."""

_STARTS: Final = {
    b"PK\x03\x04": "it looks like a file of torch.save or numpy.savez: load it there, and save its tensors with "
    "safetensors",
    b"\x93NUMPY": "it is a file of numpy.save: numpy.load reads it",
    b"\x80": "it looks like a pickle: raygrad.load runs no code from files, and so reads none",
}


class ArrayFile(NamedTuple):
    """What a file holds."""

    text: str | None
    """None of a file that another program wrote."""
    arrays: dict[str, Array]


def write_arrays(path: str, text: str, arrays: Mapping[str, Array]) -> None:
    """Write named arrays and a text to a file, atomically.

    Args:
        path: of the file; one that is there is replaced.
        text: ASCII.
        arrays: contiguous, of dtypes in `STORED`.

    Raises:
        SaveError: the text and the names of the arrays are too long.
        OSError: the file cannot be written.
        BackendUnavailable: the library is missing.
    """
    library = _library("safetensors.numpy")
    sums = {name: _checksum(name, array) for name, array in arrays.items()}
    head = json.dumps([VERSION, zlib.crc32(text.encode()), sums])
    longest = 2 * (len(text) + len(head)) + 200 * len(arrays)  # quotes are escaped once more
    if longest > LONGEST_HEADER:
        raise SaveError(
            f"the structure of what is to be saved to {path!r}, without its tensors, has {len(text):,} characters, "
            "which is too much for the header of a safetensors file: make tensors or arrays of long lists of numbers"
        )
    with replaced_file(path) as part:
        try:
            library.save_file(dict(arrays), part, {SUMS: head, TEXT: text})
        except _format_error() as error:  # the library's error for one of the system has its number in the text
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), path) from error


def read_arrays(path: str) -> ArrayFile:
    """Return the content of a safetensors file.

    Raises:
        OSError: the file cannot be read.
        LoadError: it is no safetensors file, it is damaged, or a tensor in it has a dtype that NumPy lacks.
        BackendUnavailable: the library is missing.
    """
    library = _library("safetensors")
    with open(path, "rb") as file:  # the library's own error for a folder does not say what it is
        start = file.read(8)
    try:
        with library.safe_open(path, framework="np") as opened:
            metadata = dict(opened.metadata() or {})
            codes = {name: str(opened.get_slice(name).get_dtype()) for name in opened.keys()}
            unknown = sorted(name for name, code in codes.items() if code not in _DTYPES and code != "BF16")
            if unknown:
                raise LoadError(
                    f"{path!r} holds the tensor {unknown[0]!r} of dtype {codes[unknown[0]]}, which NumPy has not: "
                    "convert it to float32 with the program that wrote it"
                )
            names = [name for name, code in codes.items() if code != "BF16"]
            arrays = {name: np.asarray(opened.get_tensor(name)) for name in names}
    except _format_error() as error:
        hint = next((text for first, text in _STARTS.items() if start.startswith(first)), "")
        raise LoadError(
            f"{path!r} is no whole safetensors file ({error}){': ' + hint if hint else ''}; if raygrad.save wrote it, "
            "it was damaged or cut short since, and an older copy is needed"
        ) from error
    if "BF16" in codes.values():
        arrays |= _widened(path, library)
    if SUMS not in metadata and TEXT not in metadata:
        return ArrayFile(None, arrays)
    return ArrayFile(_checked_text(path, metadata, arrays), arrays)


def damaged(path: str, what: str) -> LoadError:
    """Return the error for a damaged file."""
    return LoadError(f"{path!r} is damaged: {what}; an older copy is needed")


def _checked_text(path: str, metadata: Mapping[str, str], arrays: Mapping[str, Array]) -> str:
    try:
        version, of_text, sums = json.loads(metadata[SUMS])
        text = metadata[TEXT]
    except (KeyError, ValueError, TypeError, RecursionError):
        raise damaged(path, "its header is not as it was written") from None
    if version != VERSION:
        raise LoadError(
            f"{path!r} has version {version!r} of raygrad's format, and this raygrad reads version {VERSION}: load it "
            "with the raygrad that wrote it"
        )
    if zlib.crc32(text.encode("utf-8", "surrogatepass")) != of_text or not isinstance(sums, dict):
        raise damaged(path, "its structure is not as it was written")
    for name, known in cast("dict[str, int]", sums).items():
        if name not in arrays or _checksum(name, arrays[name]) != known:
            raise damaged(path, f"the tensor {name!r} is not as it was written")
    return text


def _checksum(name: str, array: Array) -> int:
    """Return the checksum of an array with its name, dtype and shape."""
    head = f"{name} {array.dtype.str} {array.shape}".encode("utf-8", "surrogatepass")
    content: Any = array.reshape(-1).view(np.uint8)
    return zlib.crc32(content, zlib.crc32(head))


def _widened(path: str, library: Any) -> dict[str, Array]:
    """Return the bfloat16 tensors of a file as float32, which holds each of their numbers exactly."""
    with open(path, "rb") as file:
        content = library.deserialize(file.read())
    found: dict[str, Array] = {}
    for name, tensor in content:
        if tensor["dtype"] == "BF16":
            halves = np.frombuffer(tensor["data"], "<u2").astype(np.uint32)
            found[name] = (halves << 16).view(np.float32).reshape(tensor["shape"])
    return found


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BackendUnavailable(
            f"saving and loading need the package safetensors, which cannot be imported here ({error}); install it "
            "with `pip install safetensors`: it belongs to raygrad, and was left out or removed"
        ) from error


def _format_error() -> type[Exception]:
    return _library("safetensors").SafetensorError
