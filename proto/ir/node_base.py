"""The common fields of nodes: value ids, roles, and equality by kind.

Every kind of node begins with the same four fields: `inputs`, `outputs`, `pin` and `near`. Value ids number the
externals first (0 .. E-1), then the outputs of node 0, of node 1, ...; nodes are in a topological order, so that a node
reads only smaller ids.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, TypeVar

UNDEFINED: Final = -1
"""In the place of a value id: a gradient that never arrives, or an absent operand."""

UNPLACED: Final[tuple[tuple[int, ...], tuple[int, ...], int, int]] = ((), (), -1, UNDEFINED)
"""The common fields of a node that is not yet part of a graph."""

ROLE_OP = "op"
ROLE_FUNCTION = "function"
ROLE_HOOK = "hook"
ROLE_SUM = "sum"
ROLE_EMIT = "emit"
ROLE_MEMORY = "memory"

VJP = "vjp"
"""The transform of a node that computes a derivative, in texts and on the wire."""

TO_DEVICE: Final = "to_device"
"""The built-in op that moves a value to another device; its vjp moves the gradient back."""

Ids: TypeAlias = tuple[int, ...]

_Kind = TypeVar("_Kind", bound=type)


def distinct(kind: _Kind) -> _Kind:
    """Return the class `kind`, whose nodes are equal to nodes of the same class only; plain tuples ignore the class.
    So are those of classes derived from it."""

    base: Any = tuple

    def equal(self: Any, other: object) -> bool:
        return type(other) is type(self) and base.__eq__(self, other)

    def unequal(self: Any, other: object) -> bool:
        return not equal(self, other)

    setattr(kind, "__eq__", equal)  # noqa: B010 - a named tuple has no place for it in its body
    setattr(kind, "__ne__", unequal)  # noqa: B010
    setattr(kind, "__hash__", base.__hash__)  # noqa: B010
    return kind
