"""Specs: what is known of a value before it exists, one class for each kind of value.

A graph lists each spec once; nodes and externals name them by index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import ClassVar, Final, TypeAlias

import numpy as np

UNSEEN: Final = -1
"""The bytes of a context whose Function has not been seen to run."""

STAYS: Final = 1
"""Of a context: it stays on its worker."""

LIVE: Final = 2
"""Of a context: it stays in its worker's process as it is, and cannot be taken apart (H10)."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array."""

    kind: ClassVar[str] = "array"
    shape: tuple[int, ...]
    dtype: str
    """By its name in NumPy."""
    device: str = "cpu"
    layout: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """(axes from outermost to innermost, expanded axes); None where only the kernel knows it (H1)."""


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """The context of a Function's application: what forward left for backward."""

    kind: ClassVar[str] = "context"
    nbytes: int | None = None
    """The bytes that it alone holds, beside references to arguments and outputs; UNSEEN if its Function has not run
    yet; None where that is not said."""
    stays: int = 0
    """STAYS, LIVE, or 0 if it may go to the object store."""
    per_device: tuple[tuple[str, int], ...] = ()
    """(device, how many of these bytes are there), for each device on which it holds some."""


@dataclass(frozen=True, slots=True)
class ConstSpec:
    """A Python object that a node reads."""

    kind: ClassVar[str] = "const"
    nbytes: int | None = None
    """Its bytes, if it is large enough to count."""


@dataclass(frozen=True, slots=True)
class ObjectSpec:
    """An output that is no array: an object, or a fingerprint."""

    kind: ClassVar[str] = "object"


@dataclass(frozen=True, slots=True)
class UnknownSpec:
    """A value of which nothing is known before it exists."""

    kind: ClassVar[str] = "unknown"


Spec: TypeAlias = ArraySpec | ContextSpec | ConstSpec | ObjectSpec | UnknownSpec


def bytes_of(spec: Spec) -> int:
    """Return the bytes of an array, or those that a context or a constant is said to hold; -1 where nobody knows."""
    if isinstance(spec, ArraySpec):
        return prod(spec.shape) * _itemsize(spec.dtype)
    if isinstance(spec, ContextSpec | ConstSpec) and spec.nbytes is not None:
        return spec.nbytes
    return -1


@lru_cache(maxsize=64)
def _itemsize(dtype: str) -> int:
    """Return the bytes of one element; 8 for a dtype that NumPy does not know by name (bfloat16 and the like)."""
    try:
        return np.dtype(dtype).itemsize
    except TypeError:
        return 8


def is_stored(spec: Spec) -> bool:
    """Tell whether a value is a context that goes to the object store where it outlives its segment."""
    return isinstance(spec, ContextSpec) and not spec.stays


def is_sized(spec: Spec) -> bool:
    """Tell whether a value is a context that is known to hold bytes of its own."""
    return isinstance(spec, ContextSpec) and spec.nbytes is not None and spec.nbytes > 0
