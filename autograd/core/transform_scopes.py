"""Scopes of function transforms: which tensors exist because of a transform that runs, and which it captures.

`modes.open_scope` opens one for each transform but vmap. What makes tensors marks them with the innermost scope of the
thread while any is open; `mutation.captured` refuses to change others in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

SCOPES: Final[list[TransformScope]] = []
"""The scopes that are open, on whatever thread; empty nearly always."""


class TransformScope:
    """The run of a function under one transform.

    Attributes:
        name: that of the transform.
        parent: the scope that it runs in, if there is one.
        given: the tensors that the function is given; nothing once the scope is closed.
        checks: whether captured tensors must not be changed. Not in a Function's forward, jvp and vmap, which run as
            they do outside of the transform.
    """

    __slots__ = ("_user_code", "checks", "given", "name", "parent")

    def __init__(self, name: str, parent: TransformScope | None, checks: bool = True) -> None:
        self.name = name
        self.parent = parent
        self.given: Sequence[Tensor] = ()
        self.checks = checks
        self._user_code: TransformScope | None = None

    def of_user_code(self) -> TransformScope:
        """Return the scope of a Function's forward, jvp or vmap inside this one."""
        if not self.checks:
            return self
        if self._user_code is None:
            self._user_code = TransformScope(self.name, self, False)
        return self._user_code

    def encloses(self, scope: TransformScope | None) -> bool:
        """Tell whether a scope is this one, or inside of it."""
        while scope is not None:
            if scope is self:
                return True
            scope = scope.parent
        return False
