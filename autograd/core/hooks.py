"""Dictionaries of registered hooks, and the removable handles that registration returns (ND-12).

Tensors and nodes keep their hooks in a `HookDict`; the engine calls them.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from .modes import state
from .random_streams import Path, path_of_registration

_ids = itertools.count()


class HookDict(dict[int, Any]):
    """Hooks by handle id, in order of registration; a pass takes a snapshot of the values.

    Attributes:
        paths: by id, the path of each hook's registration (`random_streams`).
    """

    __slots__ = ("__weakref__", "paths")

    def __init__(self, hooks: Iterable[tuple[int, Any]] = (), paths: Iterable[tuple[int, Path]] | None = None) -> None:
        """Without `paths`, the hooks are registered now."""
        super().__init__(hooks)
        self.paths = {number: path_of_registration(state.here) for number in self} if paths is None else dict(paths)

    def with_paths(self) -> list[tuple[Any, Path]]:
        """Return the hooks with the paths of their registration."""
        paths = self.paths
        return [(hook, paths[number]) for number, hook in self.items()]


class ClientHook:
    """A hook that is called in the program's own process, where a session would send any other to a worker (DR-06)."""

    __slots__ = ("hook",)

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, *grads: Any) -> Any:
        return self.hook(*grads)

    @property
    def __name__(self) -> str:
        return getattr(self.hook, "__name__", type(self.hook).__name__)


class RemovableHandle:
    """Removes one hook: `handle.remove()` (again does nothing), or at the end of a `with` block.

    It keeps neither the hook nor its node alive: a hook lives as long as what it is registered on (ND-17).
    """

    __slots__ = ("_hooks", "id")

    def __init__(self, hooks: HookDict, hook: Any) -> None:
        self.id = next(_ids)
        self._hooks = weakref.ref(hooks)
        hooks[self.id] = hook
        hooks.paths[self.id] = path_of_registration(state.here)

    def remove(self) -> None:
        """Remove the hook; a pass that is under way is not affected."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)
            hooks.paths.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.remove()
