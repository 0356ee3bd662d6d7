"""Registered callbacks and the handles that remove them (ND-12)."""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import Any

_ids = itertools.count()

HookDict = dict[int, Any]
"""Hooks by handle id, in order of registration."""


class RemovableHandle:
    """Removes one hook: `handle.remove()` (again does nothing), or at the end of a `with` block."""

    __slots__ = ("_hooks", "id")

    def __init__(self, hooks: HookDict, hook: Any) -> None:
        self.id = next(_ids)
        self._hooks: HookDict | None = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        """Remove the hook; a pass that is under way is not affected."""
        if self._hooks is not None:
            self._hooks.pop(self.id, None)
            self._hooks = None

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.remove()
