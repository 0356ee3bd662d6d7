"""Tensors nested in objects that are arguments of a Function: extracted at the client, put back on the worker.

The tensors are inputs of the Function's node. A nested tensor that is also an argument is one tensor in forward, as it
is eagerly: a derivative by the one reaches the other."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple, final

import numpy as np

from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import NotShippable

from .array_form import FormedArray, copy_as_it_lies
from .identity import state_of
from .importable import import_name
from .pickling import pickle_argument, pickle_around_tensors, pickle_value, reads_variables
from .unpickling import load, opened_value, unpickle_value
from .visitor import reachable

_PLAIN: Final = frozenset((int, float, bool, str, bytes, complex, type(None), np.ndarray, np.dtype, ModuleType))


@final
class Embedding:
    """A pickled object without its tensors. Each tensor is (position of an argument, kind) or, with position -1, the
    next of the node's own inputs, of a kind (`kind_of`).

    If it is `of_several`, the object is a tuple of arguments that hold objects in common, and this stands for the first
    of them; a `GroupedArgument` stands for each other one.
    """

    __slots__ = ("data", "of_several", "places")

    def __init__(self, data: bytes, places: tuple[tuple[int, int], ...], of_several: bool = False) -> None:
        self.data = data
        self.places = places
        self.of_several = of_several

    def __reduce__(self) -> Any:
        return Embedding, (self.data, self.places, self.of_several)

    @property
    def kinds(self) -> list[int]:
        """The kinds of the tensors that are inputs of the node."""
        return [kind for position, kind in self.places if position < 0]

    @property
    def own(self) -> int:
        """The number of the node's inputs for it."""
        return sum([position < 0 for position, _ in self.places])

    def opened(self, args: Sequence[Any], values: Sequence[Tensor]) -> Any:
        """Return the unpickled object, with its tensors from the arguments and from `values`."""
        given = iter(values)
        tensors = [args[position] if position >= 0 else next(given) for position, _ in self.places]
        return load(self.data, (), tensors)


class GroupedArgument(NamedTuple):
    """An argument that was pickled with others, and its number among them."""

    number: int


BOXES: Final = frozenset((Embedding, FormedArray, GroupedArgument))
"""What stands for an argument until forward is called."""


def unboxed(value: Any) -> Any:
    """Return what a value without tensors stands for: itself, if it is no box."""
    if type(value) is FormedArray:
        return value.opened()
    return value.opened((), ()) if type(value) is Embedding else value


def holds_tensors(value: Any) -> bool:
    """Tell whether there are tensors in an object: in containers, attributes, or what functions capture.

    The class of an object is code, and no part of what the object holds.
    """
    for one in reachable(value, _may_hold_tensors, omit="class"):
        if isinstance(one, Tensor):
            return True
    return False


def _may_hold_tensors(value: Any) -> bool:
    return type(value) not in _PLAIN and import_name(value) is None


def extract_tensors(value: Any) -> tuple[bytes, list[Tensor]]:
    """Return a Python object as bytes, and the tensors in it.

    Raises:
        NotShippable: it cannot be pickled; names the attribute or element, if it is one.
    """
    data, pickler = pickle_around_tensors(value)
    return data, pickler.captured


def copy_argument(value: Any) -> tuple[bytes, Any]:
    """Return bytes that are equal for equal objects without tensors, and a copy for a Function to read. What is
    compared by identity stays itself in the copy; where that takes the code that reads it, the copy is an `Embedding`.

    Raises:
        NotShippable: it cannot be pickled; names the attribute or element, if it is one.
    """
    data, pickler = pickle_argument(value)
    if pickler.opened_anew and _is_opened_anew(value):
        return data, Embedding(pickle_value(value), ())
    known: dict[int, Any] = {id(one): one for one in pickler.kept}
    known.update([(id(array), copy_as_it_lies(array)) for array in pickler.formed])
    try:
        return data, copy.deepcopy(value, known)
    except Exception:  # of a dict whose items are attributes, say, which says KeyError of `__deepcopy__`
        packed = pickle_value(value)
        unpickle_value(packed)  # it is refused where it is given, if that fails, too
        return data, Embedding(packed, ())


def _is_opened_anew(value: Any) -> bool:
    """Tell whether an object holds functions that read variables, or constants with attributes, other than in classes:
    of other functions one copy serves all."""
    for one in reachable(value, _may_hold_tensors, omit="class"):
        if reads_variables(one) if type(one) is FunctionType else state_of(one):
            return True
    return False


def nested_tensors_of(embedded: Sequence[Embedding], sources: Sequence[int], slots: Sequence[Any]) -> list[Tensor]:
    """Return the tensors of a node's embeddings: one tensor per value, wherever it is nested."""
    made: dict[int, Tensor] = {}
    kinds = [kind for one in embedded for kind in one.kinds]
    for source, kind in zip(sources, kinds, strict=True):
        if source not in made:
            made[source] = opened_value(slots[source], kind)
    return [made[source] for source in sources]


def opened(
    args: tuple[Any, ...], named: dict[str, Any], values: Sequence[Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any], frozenset[int]]:
    """Return the arguments with embeddings unpickled and arrays laid out, and the positions of arguments that are
    nested in one."""
    position, inside = 0, set[int]()
    made: dict[int, Any] = {}  # what is given twice is one object
    together: tuple[Any, ...] = ()

    def one(value: Any) -> Any:
        nonlocal position, together
        if type(value) is GroupedArgument:
            return together[value.number]
        if type(value) not in BOXES:
            return value
        if id(value) in made:
            return made[id(value)]
        if type(value) is FormedArray:
            found: Any = value.opened()
        else:
            own = values[position : position + value.own]
            position += len(own)
            inside.update([place for place, _ in value.places if place >= 0])
            found = value.opened(args, own)
            if value.of_several:
                together, found = found, found[0]
        made[id(value)] = found
        return found

    everything = [one(arg) for arg in args], {name: one(value) for name, value in named.items()}
    if position != len(values):
        raise NotShippable(f"{len(values)} tensors came for objects that hold {position}")
    return tuple(everything[0]), everything[1], frozenset(inside)
