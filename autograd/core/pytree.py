"""Pytrees: nested containers flattened to their leaves and a structure, and rebuilt from them.

Transforms and vmap use them for the arguments and results of user code. Lists, tuples, named tuples and dicts
(`OrderedDict`, too, but no other subclass) are containers; everything else, None among it, is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Structure:
    """What is left of nested containers without their leaves; two are equal if the same leaves would fit.

    Attributes:
        kind: the type of the container; None for a leaf.
        keys: of a dict, its keys in order.
        children: the structures of what it holds.
        count: how many leaves there are.
    """

    kind: type | None = None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()
    count: int = 1

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        inner = [str(child) for child in self.children]
        if self.keys:
            inner = [f"{key!r}: {text}" for key, text in zip(self.keys, inner, strict=True)]
        return f"{self.kind.__name__}({', '.join(inner)})"


_type: Any = type
"""Which the type checker does not see through: of a container it would know too little to be content."""

LEAF = Structure()
"""The structure of what is no container."""


def _parts(tree: Any) -> tuple[tuple[Any, ...], list[Any]] | None:
    """Return the keys and the items of a container; None for a leaf."""
    if type(tree) in (dict, OrderedDict):
        return tuple(tree), list(tree.values())
    if type(tree) in (list, tuple) or _is_named(_type(tree)):
        return (), list(tree)
    return None


def _is_named(kind: Any) -> bool:
    """Tell whether a type is that of named tuples."""
    return tuple in kind.__mro__ and isinstance(getattr(kind, "_fields", None), tuple)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of nested containers, in order, and their structure."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    parts = _parts(tree)
    if parts is None:
        leaves.append(tree)
        return LEAF
    before = len(leaves)
    children = tuple([_flatten(item, leaves) for item in parts[1]])
    return Structure(_type(tree), parts[0], children, len(leaves) - before)


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """Return the containers of a structure around leaves, of which there are as many as it counts."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    kind: Any = structure.kind
    if kind is None:
        return next(leaves)
    items = [_unflatten(child, leaves) for child in structure.children]
    if dict in kind.__mro__:
        return kind(zip(structure.keys, items, strict=True))
    return kind(*items) if _is_named(kind) else kind(items)


def tree_map(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Return nested containers of the same structure, with `fn` of each leaf."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [fn(leaf) for leaf in leaves])


def broadcast_prefix(prefix: Any, structure: Structure) -> list[Any] | None:
    """Return a leaf of `prefix` for each leaf of `structure`, one standing for all that is below its place.

    None if the two do not fit: containers of different types, lengths or keys in one place.
    """
    parts = _parts(prefix)
    if parts is None:
        return [prefix] * structure.count
    keys, items = parts
    if type(prefix) is not structure.kind or len(items) != len(structure.children):
        return None
    if keys != structure.keys:
        if set(keys) != set(structure.keys):
            return None
        items = [prefix[key] for key in structure.keys]
    out: list[Any] = []
    for item, child in zip(items, structure.children, strict=True):
        below = broadcast_prefix(item, child)
        if below is None:
            return None
        out.extend(below)
    return out
