"""Specs: the abstract values of a graph (kind, shape, dtype, device, bytes), one class for each kind of value.

A graph lists each spec once; nodes and externals name them by index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import ClassVar, Final, TypeAlias

import numpy as np

UNSEEN: Final = -1
"""The bytes of a context whose Function has not run yet."""

STAYS: Final = 1
"""`ContextSpec.stays` of a context that stays on its worker."""

LIVE: Final = 2
"""`ContextSpec.stays` of a context that stays live in its worker's process and cannot be packed (H10)."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array."""

    kind: ClassVar[str] = "array"
    shape: tuple[int, ...]
    dtype: str
    """The name of the dtype in NumPy."""
    device: str = "cpu"
    layout: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """(axes from outermost to innermost, expanded axes); None where only the kernel knows it (H1)."""


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """The context of a Function's call: saved tensors and attributes for backward."""

    kind: ClassVar[str] = "context"
    nbytes: int | None = None
    """The bytes of its own, without references to arguments and outputs; UNSEEN if its Function has not run yet; None
    if not stated."""
    stays: int = 0
    """STAYS, LIVE, or 0 if it may go to the object store."""
    per_device: tuple[tuple[str, int], ...] = ()
    """(device, bytes there), for each device on which it holds some."""


@dataclass(frozen=True, slots=True)
class ConstSpec:
    """A Python object that a node reads."""

    kind: ClassVar[str] = "const"
    nbytes: int | None = None
    """Its bytes, if they are many enough to count."""


@dataclass(frozen=True, slots=True)
class ObjectSpec:
    """An output that is no array: an object, or a digest."""

    kind: ClassVar[str] = "object"


@dataclass(frozen=True, slots=True)
class UnknownSpec:
    """A value of which nothing is known before it exists."""

    kind: ClassVar[str] = "unknown"


Spec: TypeAlias = ArraySpec | ContextSpec | ConstSpec | ObjectSpec | UnknownSpec


def bytes_of(spec: Spec) -> int:
    """Return the bytes of an array, or the stated bytes of a context or constant; -1 if unknown."""
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
    """Tell whether a value is a context that goes to the object store if it outlives its segment."""
    return isinstance(spec, ContextSpec) and not spec.stays


def can_leave(spec: Spec) -> bool:
    """Tell whether a value can be brought to another worker, as far as is known: it is no context that stays."""
    return not isinstance(spec, ContextSpec) or not spec.stays


def is_sized(spec: Spec) -> bool:
    """Tell whether a value is a context with known bytes of its own."""
    return isinstance(spec, ContextSpec) and spec.nbytes is not None and spec.nbytes > 0
