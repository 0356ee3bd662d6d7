"""What an interop node is applied to, as data: how its arguments nest, and which derivative of the code is wanted.

Rules of this file: plain data that pickles, and nothing of any framework. Tensors are flat; what says where they belong
is a `ForeignCall` among the arguments and an `Outcome` among the outputs. A derivative is a call of the same code with one
level more, so that derivatives of any order are one kind of node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from raygrad.autograd.core.pytree import Structure, flatten, unflatten
from raygrad.autograd.core.recorder import FixedOutput
from raygrad.workers.code.shipping import pickle_value, unpickle_value

CALLS_KEPT: Final = 4096
"""Calls that are kept opened per process: of programs that make new ones without end, the last ones."""


class TensorPlaceholder(Enum):
    """Stands for a tensor among the leaves of nested containers."""

    TENSOR = "tensor"


class DerivativeKind(Enum):
    """Which derivative a level takes of what is below it."""

    VJP = "vjp"
    JVP = "jvp"


class DerivativeLevel(NamedTuple):
    """One derivative: of what is below, a function of the first `inputs` tensors; the other tensors are cotangents, or
    tangents."""

    kind: DerivativeKind
    inputs: int
    chosen: tuple[int, ...]
    """Of a vjp the inputs whose gradients are wanted, of a jvp those that carry a tangent."""
    given: tuple[bool, ...]
    """Of a vjp, per tensor that is returned below, whether it has a cotangent."""


@dataclass(frozen=True, slots=True)
class ForeignCall:
    """One way to call the code: tensors of its own first, then those among the arguments.

    Attributes:
        structure, leaves: the arguments, `(args, kwargs)`: their nesting, and per leaf a constant or `Place.TENSOR`.
        own: how many tensors come before the arguments: parameters, buffers, a seed.
        options: what else decides how it runs.
        levels: the derivatives that are taken, innermost first.
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
    """Return a call as bytes: among the arguments of a node these are compared and sent at no cost."""
    return pickle_value(call)


@functools.lru_cache(maxsize=CALLS_KEPT)
def decoded(data: bytes) -> ForeignCall:
    """Return the call that `encoded` was given."""
    return unpickle_value(data)


@dataclass(frozen=True, slots=True)
class Outcome(FixedOutput):
    """How what came out nests; `state` more tensors follow: new values of buffers."""

    structure: Structure
    leaves: tuple[Any, ...]
    state: int = 0

    def rebuilt(self, tensors: Sequence[Any]) -> Any:
        """Return the nested result around `tensors`, the new buffers left out."""
        given = iter(tensors)
        return unflatten(
            self.structure, [next(given) if leaf is TensorPlaceholder.TENSOR else leaf for leaf in self.leaves]
        )


def present_results(values: Sequence[Any]) -> tuple[list[Any], Outcome]:
    """Return what is there among the results of a derivative, and where: the others are None."""
    _, structure = flatten([None] * len(values))
    leaves = tuple([None if value is None else TensorPlaceholder.TENSOR for value in values])
    return [value for value in values if value is not None], Outcome(structure, leaves)


_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))


def flattened_arguments(
    value: Any, is_tensor: Callable[[Any], bool], refuse: Callable[[Any], Exception] | None = None
) -> tuple[list[Any], Structure, tuple[Any, ...]]:
    """Return the tensors in nested containers, their structure, and its leaves with places for the tensors.

    Args:
        value: lists, tuples, named tuples and dicts of whatever there is.
        is_tensor: tells tensors.
        refuse: makes the error for a leaf that is neither a tensor nor a plain constant; None: all are taken.
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
    """Return what tells a constant from others that Python finds equal to it: 1 is not 1.0, nor 0.0 what -0.0 is.

    Raises:
        TypeError: it is not hashable.
    """
    hash(leaf)
    return (type(leaf), repr(leaf) if isinstance(leaf, float | complex) else leaf)
