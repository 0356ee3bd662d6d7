"""The call of an interop node as data: how its arguments nest, and which derivative of the code is wanted.

Plain data that pickles, and nothing of any framework. Tensors are flat; a `ForeignCall` among the arguments and an
`Outcome` among the outputs say how they nest. A derivative is a call of the same code with one level more, so that
derivatives of any order are one kind of node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import numpy as np

from raygrad.autograd.core.pytree import Structure, flatten, unflatten
from raygrad.autograd.core.recorder import FixedOutput
from raygrad.workers.code.shipping import pickle_value, unpickle_value

T = TypeVar("T")

CALLS_KEPT: Final = 4096
"""Decoded calls cached per process, the most recent ones."""


class TensorPlaceholder(Enum):
    """The mark of a tensor among the leaves of nested containers."""

    TENSOR = "tensor"


class DerivativeKind(Enum):
    """The kind of a derivative: vjp or jvp."""

    VJP = "vjp"
    JVP = "jvp"


class DerivativeLevel(NamedTuple):
    """One derivative: of the level below, a function of the first `inputs` tensors; the other tensors are cotangents or
    tangents."""

    kind: DerivativeKind
    inputs: int
    chosen: tuple[int, ...]
    """For a vjp the inputs whose gradients are requested, for a jvp those that carry a tangent."""
    given: tuple[bool, ...]
    """For a vjp, per output of the level below, whether it has a cotangent."""


@dataclass(frozen=True, slots=True)
class ForeignCall:
    """One way to call the code. Its tensors are its own first, then those among the arguments.

    Attributes:
        structure, leaves: the arguments, `(args, kwargs)`: their nesting, and per leaf a constant or
            `TensorPlaceholder.TENSOR`.
        own: number of tensors before the arguments: parameters, buffers, a seed.
        options: all else that decides how it runs.
        levels: its derivatives, innermost first.
    """

    structure: Structure
    leaves: tuple[Any, ...]
    own: int
    options: tuple[Any, ...] = ()
    levels: tuple[DerivativeLevel, ...] = ()

    def arguments(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and named arguments, given all tensors of the innermost level."""
        given = iter(tensors[self.own :])
        args, named = unflatten(
            self.structure, [next(given) if leaf is TensorPlaceholder.TENSOR else leaf for leaf in self.leaves]
        )
        return args, named

    def above(
        self, kind: DerivativeKind, inputs: int, chosen: Sequence[int], given: Sequence[bool] = ()
    ) -> ForeignCall:
        """Return the call of a derivative of this one."""
        return replace(self, levels=(*self.levels, DerivativeLevel(kind, inputs, tuple(chosen), tuple(given))))


def encoded(call: ForeignCall) -> bytes:
    """Return a call as bytes: an argument of nodes that is compared and sent at little cost."""
    return pickle_value(call)


@functools.lru_cache(maxsize=CALLS_KEPT)
def decoded(data: bytes) -> ForeignCall:
    """Return the call of the bytes that `encoded` made."""
    return unpickle_value(data)


class CallCache(Generic[T]):
    """What follows from calls or from their code, made once for each; forgotten when there is too much of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Any, T] = {}

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """Return what `make` returned for an equal key; without a memory of keys that cannot be hashed."""
        try:
            found = self._known.get(key)
        except TypeError:  # a constant among the arguments may change between two calls
            return make()
        if found is None:
            if len(self._known) >= self._most:
                self._known.clear()
            found = self._known[key] = make()
        return found


@dataclass(frozen=True, slots=True)
class Outcome(FixedOutput):
    """The structure of the results; `state` more tensors follow: new values of buffers."""

    structure: Structure
    leaves: tuple[Any, ...]
    state: int = 0

    def rebuilt(self, tensors: Sequence[Any]) -> Any:
        """Return the nested result of `tensors`, without the new buffers."""
        given = iter(tensors)
        return unflatten(
            self.structure, [next(given) if leaf is TensorPlaceholder.TENSOR else leaf for leaf in self.leaves]
        )


def present_results(values: Sequence[Any]) -> tuple[list[Any], Outcome]:
    """Return the results of a derivative that are not None, and their positions."""
    _, structure = flatten([None] * len(values))
    leaves = tuple([None if value is None else TensorPlaceholder.TENSOR for value in values])
    return [value for value in values if value is not None], Outcome(structure, leaves)


_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))


def flattened_arguments(
    value: Any, is_tensor: Callable[[Any], bool], refuse: Callable[[Any], Exception] | None = None
) -> tuple[list[Any], Structure, tuple[Any, ...]]:
    """Return the tensors in nested containers, their structure, and its leaves with placeholders for the tensors.

    Args:
        value: lists, tuples, named tuples and dicts of any leaves.
        is_tensor: whether a leaf is a tensor.
        refuse: makes the error for a leaf that is neither a tensor nor a plain constant; None: all are accepted.
    """
    flat, structure = flatten(value)
    tensors: list[Any] = []
    leaves: list[Any] = []
    for leaf in flat:
        if is_tensor(leaf):
            tensors.append(leaf)
            leaves.append(TensorPlaceholder.TENSOR)
            continue
        if refuse is not None and not isinstance(leaf, _PLAIN):
            raise refuse(leaf)
        leaves.append(leaf)
    return tensors, structure, tuple(leaves)


def identity_of(leaf: Any) -> Any:
    """Return a key that tells a constant from others that are equal in Python: 1 from 1.0, 0.0 from -0.0.

    It is hashable if the constant is.
    """
    return (type(leaf), repr(cast(object, leaf)) if isinstance(leaf, float | complex | np.inexact) else leaf)
