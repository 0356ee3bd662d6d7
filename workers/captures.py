"""What a piece of user code captures, and which of it cannot travel: for warnings and refusals.

Rules of this file: looks at functions, classes and plain objects, changes nothing, runs no user code.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

DEPTH: Final = 8
"""Steps that the search for a culprit takes into nested objects."""

MUTATORS: Final = frozenset(
    "add append appendleft clear discard extend insert pop popitem remove reverse setdefault sort update".split()
)
_STORES: Final = frozenset((dis.opmap["STORE_SUBSCR"], dis.opmap["DELETE_SUBSCR"]))


def writes_to(function: FunctionType) -> bool:
    """Tell whether the code might change a container: it stores an item, or calls a method such as `append`."""
    return _writes(function.__code__)


def _writes(code: CodeType) -> bool:
    if not MUTATORS.isdisjoint(code.co_names) or not _STORES.isdisjoint(code.co_code[::2]):
        return True
    return any(_writes(const) for const in code.co_consts if isinstance(const, CodeType))


def culprit(obj: Any, fits: Callable[[Any], bool]) -> str:
    """Return what it is in `obj` that does not fit: "'lock' (a _thread.lock)", "'state' ['file'] (a ...)"; empty if it
    is `obj` itself, or nothing by itself."""
    path, leaf = _search(obj, fits, {id(obj)}, DEPTH)
    return f"{' '.join(path)} (a {type(leaf).__name__})" if path else ""


def _search(obj: Any, fits: Callable[[Any], bool], seen: set[int], depth: int) -> tuple[list[str], Any]:
    if depth:
        for name, value in captured(obj):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if not fits(value):
                path, leaf = _search(value, fits, seen, depth - 1)
                return [name, *path], leaf
    return [], obj


def captured(obj: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object reaches in one step, with the name that its author knows it by."""
    if isinstance(obj, FunctionType):
        yield from _variables(obj)
    elif isinstance(obj, staticmethod | classmethod):
        yield from captured(obj.__func__)  # pyright: ignore[reportUnknownMemberType]
    elif isinstance(obj, property):
        for function in (obj.fget, obj.fset, obj.fdel):
            if function is not None:
                yield from captured(function)
    elif isinstance(obj, MethodType):
        yield "'self'", obj.__self__
        yield from captured(obj.__func__)
    elif isinstance(obj, type):
        for name, value in list(vars(obj).items()):
            yield f"'{obj.__name__}.{name}'", value
    elif isinstance(obj, dict):
        for key, value in list(obj.items()):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield f"[{key!r}]", value
    elif isinstance(obj, list | tuple | set | frozenset):
        for index, value in enumerate(obj):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield f"[{index}]", value
    else:
        for name, value in list(getattr(obj, "__dict__", {}).items()):
            yield f"'{type(obj).__name__}.{name}'", value


def _variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"'{name}'", cell.cell_contents
        except ValueError:  # not bound yet
            continue
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield f"'{name}'", function.__globals__[name]
    for number, value in enumerate(function.__defaults__ or ()):
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        yield f"default of '{names[number - len(function.__defaults__ or ())]}'", value
    for name, value in (function.__kwdefaults__ or {}).items():
        yield f"default of '{name}'", value


def _global_names(code: CodeType) -> list[str]:
    names = list(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names.extend(_global_names(const))
    return names
