"""A Function class that packs its saved tensors by the saved-tensor hooks in force where it was applied, for sessions.

The class travels to a worker like any Function, and applies the hooks where forward runs. Eager calls do not need it:
there `saved` packs by the hooks in force.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast
from weakref import WeakValueDictionary

from raygrad.errors import AutogradError

from ..core.modes import state
from ..functions.function import Function
from ..saved.saved_tensor_hooks import PackHooks, current_hooks

_derived: WeakValueDictionary[tuple[int, int, int], type[Function]] = WeakValueDictionary()
"""Derived classes by the identities of a Function and of its two hooks, which the derived class keeps alive."""


def with_hooks(cls: type[Function]) -> type[Function]:
    """Return a class derived from `cls` whose saved tensors are packed by the hooks in force.

    Raises:
        RuntimeError: these hooks are bound to the memory of this process.
    """
    hooks = current_hooks()
    if hooks.about_to_change is not None:
        raise AutogradError(
            f"{cls.__name__}.apply: allow_mutation_on_saved_tensors does not reach the worker that runs a Function of "
            "a session, where nothing that was saved is changed: leave its block before the Function is applied, or "
            "apply it outside of the session"
        )
    key = (id(cls), id(hooks.pack), id(hooks.unpack))
    found = _derived.get(key)
    if found is None:
        members = {
            "_applied_under": (hooks.pack, hooks.unpack),
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__ + " with saved-tensor hooks",
        }
        found = _derived[key] = _class(cls, members)
    return found


def _class(cls: type[Function], members: dict[str, Any]) -> type[Function]:
    metaclass: Any = type(cls)
    return metaclass(cls.__name__, (cls,), members)


def unpack_of(cls: type[Function]) -> Callable[[Any], Any]:
    """Return the unpack hook of a derived class."""
    return cast("Any", cls)._applied_under[1]


def packing(cls: type[Function]) -> AbstractContextManager[None]:
    """Return a context manager in which a derived class packs saved tensors by its hooks; for other classes, an empty
    one."""
    hooks: Any = getattr(cls, "_applied_under", None)
    return _NOTHING if hooks is None else _packing(hooks)


_NOTHING = nullcontext()


@contextmanager
def _packing(hooks: tuple[Any, Any]) -> Generator[None]:
    before = state.saving
    state.saving = (PackHooks(*hooks),)
    state.changed()
    try:
        yield
    finally:
        state.saving = before
        state.changed()
