"""What a piece of user code captures, and which of it cannot travel: for warnings and refusals.

Rules of this file: looks at functions, classes and plain objects, changes nothing, runs no user code.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from raygrad.autograd.tensor import Tensor

DEPTH: Final = 8
"""Steps that the search for a culprit takes into nested objects."""

MUTATORS: Final = frozenset(
    "add append appendleft clear discard extend insert pop popitem remove reverse setdefault sort update".split()
)
_CONSTRUCTORS: Final = frozenset(("__init__", "__new__", "__post_init__", "__setstate__", "__init_subclass__"))
_NONE: Final[frozenset[str]] = frozenset()
_NOTHING: Final = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "RESUME", "PRECALL"))
_STORES: Final = frozenset((dis.opmap["STORE_SUBSCR"], dis.opmap["DELETE_SUBSCR"]))


ADDS, READS, REPLACES = 1, 2, 4
"""What code may do with the `.grad` of leaves that are not its own, as a sum: change it; read it; assign it."""


def of_gradients(obj: Any) -> int:
    """Return what a piece of code might do with the `.grad` of leaves that it captures or is given: a sum of ADDS,
    READS and REPLACES. It goes by names: `backward` called, `.grad` read or stored to, there or in what it reaches."""
    return _of_gradients(obj, {}, DEPTH)


def _of_gradients(obj: Any, seen: dict[int, Any], depth: int) -> int:
    if id(obj) in seen or not depth or type(obj) in _PLAIN or _is_of_a_library(obj):
        return 0
    seen[id(obj)] = obj
    found = 0
    if isinstance(obj, staticmethod | classmethod | MethodType):
        found = _of_gradients(obj.__func__, seen, depth)  # pyright: ignore[reportUnknownMemberType]
    elif isinstance(obj, property):
        for function in (obj.fget, obj.fset, obj.fdel):
            found |= _of_gradients(function, seen, depth)
    elif isinstance(obj, FunctionType):
        found = _gradients_in(obj.__code__)
        for name in _global_names(obj.__code__):  # functions of the modules that it names
            for module in [one for _, one in _variables(obj) if isinstance(one, ModuleType)]:
                if not _is_of_a_library(module):
                    found |= _of_gradients(vars(module).get(name), seen, depth - 1)
    elif isinstance(obj, ModuleType):
        return 0
    elif isinstance(obj, type):
        for base in obj.__mro__[1:]:
            found |= _of_gradients(base, seen, depth - 1)
    elif not isinstance(obj, dict | list | tuple | set | frozenset):
        found = _of_gradients(type(obj), seen, depth - 1)
    for _, value in captured(obj):
        if found == ADDS | READS | REPLACES:
            break
        found |= _of_gradients(value, seen, depth - 1)
    return found


def _gradients_in(code: CodeType) -> int:
    found = ADDS if "backward" in code.co_names else 0
    if "grad" in code.co_names:
        found |= READS
        stores = ("STORE_ATTR", "DELETE_ATTR")
        if any([one.opname in stores and one.argval == "grad" for one in dis.get_instructions(code)]):
            found |= ADDS | REPLACES
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found |= _gradients_in(const)
    return found


def _is_of_a_library(obj: Any) -> bool:
    """Tell whether an object is Python's, NumPy's or ours: what it does with gradients is known."""
    name = obj.__name__ if isinstance(obj, ModuleType) else getattr(obj, "__module__", None)
    top = name.partition(".")[0] if isinstance(name, str) else ""
    return top in _LIBRARIES


_LIBRARIES: Final = sys.stdlib_module_names.union(("raygrad", "numpy", "scipy")) - {"__main__"}
_PLAIN: Final = frozenset((int, float, bool, str, bytes, complex, type(None)))


def writes_to(function: FunctionType) -> bool:
    """Tell whether the code might change a container: it stores an item, or calls a method such as `append`."""
    return _writes(function.__code__)


def _writes(code: CodeType) -> bool:
    if not MUTATORS.isdisjoint(code.co_names) or not _STORES.isdisjoint(code.co_code[::2]):
        return True
    return any(_writes(const) for const in code.co_consts if isinstance(const, CodeType))


def changed_by(obj: Any, is_installed: Callable[[Any], bool]) -> str | None:
    """Return the name of a variable or attribute that outlives a call of the code and that it may change (not what a
    container holds: `writes_to`); None if there is none. What `is_installed` is not looked into."""
    return _changed(obj, False, is_installed, {}, DEPTH)


def _changed(
    obj: Any, bound: bool, is_installed: Callable[[Any], bool], seen: dict[int, Any], depth: int
) -> str | None:
    """Look at code whose first argument outlives the call, if it is `bound`."""
    if id(obj) in seen or not depth or is_installed(obj):
        return None
    seen[id(obj)] = obj
    if isinstance(obj, FunctionType):
        found = _stored(obj.__code__, frozenset(obj.__code__.co_freevars), bound, _leaves_in(obj))
        if found is not None:
            return found
    elif isinstance(obj, classmethod | MethodType):
        return _changed(obj.__func__, True, is_installed, seen, depth)  # pyright: ignore[reportUnknownMemberType]
    elif getattr(obj, "__dict__", None) and not isinstance(obj, type | ModuleType | staticmethod):
        for cls in type(obj).__mro__:
            for name, member in () if is_installed(cls) else list(vars(cls).items()):
                if name not in _CONSTRUCTORS:
                    found = _changed(member, isinstance(member, FunctionType), is_installed, seen, depth - 1)
                    if found is not None:
                        return found
    for _, value in captured(obj):
        found = _changed(value, False, is_installed, seen, depth - 1)
        if found is not None:
            return found
    return None


def _leaves_in(function: FunctionType) -> frozenset[str]:
    """Return the variables of a function that are leaves, of which the `.grad` goes home (`of_gradients`)."""
    return frozenset(
        [
            name[1:-1]
            for name, value in _variables(function)
            if isinstance(value, Tensor) and value.requires_grad and value.is_leaf
        ]
    )


def optimised_by(obj: Any) -> str | None:
    """Return what code does to an optimiser that it captures: "optimizer.step"; None if nothing."""
    if isinstance(obj, MethodType):
        return optimised_by(obj.__func__)
    if not isinstance(obj, FunctionType):
        return None
    called = _STEPS.intersection(obj.__code__.co_names)
    for name, value in _variables(obj) if called else ():
        if any([cls.__module__.startswith("raygrad.optim") for cls in type(value).__mro__]):
            return f"{name[1:-1]}.{min(called)}"
    return None


_STEPS: Final = frozenset(("step", "zero_grad", "load_state_dict", "add_param_group"))


def _stored(code: CodeType, free: frozenset[str], bound: bool, leaves: frozenset[str] = _NONE) -> str | None:
    """Return the name that code stores to outside itself, None if it does not; the `.grad` of `leaves` does not
    count."""
    before: list[dis.Instruction] = []
    for one in dis.get_instructions(code):
        if one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            return str(one.argval)
        if one.opname in ("STORE_DEREF", "DELETE_DEREF") and one.argval in free:
            return str(one.argval)
        if one.opname in ("STORE_ATTR", "DELETE_ATTR") and _outlives(_root(before), code, free, bound):
            if one.argval != "grad" or not before or _name_of(before[-1]) not in leaves:
                return str(one.argval)
        if one.opname not in _NOTHING:
            before.append(one)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found = _stored(const, free, False, leaves)
            if found is not None:
                return found
    return None


def _root(before: list[dis.Instruction]) -> dis.Instruction | None:
    """Return what loaded the object whose attribute is stored to next: `a` of `a.b.c = 1` and of `a.b.c += 1`."""
    position = len(before) - 1
    if position >= 0 and before[position].opname == "SWAP":  # in `a.b += 1` the object was copied before it was read
        while position >= 0 and before[position].opname != "COPY":
            position -= 1
        position -= 1
    while position >= 0 and before[position].opname == "LOAD_ATTR":
        position -= 1
    return before[position] if position >= 0 else None


def _outlives(loaded: dis.Instruction | None, code: CodeType, free: frozenset[str], bound: bool) -> bool:
    if loaded is None:
        return True
    name = _name_of(loaded)
    is_first = bound and bool(code.co_varnames) and name == code.co_varnames[0]
    if loaded.opname.startswith("LOAD_FAST"):
        return is_first
    return is_first or name in free or loaded.opname not in ("LOAD_DEREF", "LOAD_CLASSDEREF")


def _name_of(loaded: dis.Instruction) -> str:
    """Return the variable that an instruction loads."""
    argval: Any = loaded.argval
    return str(cast("tuple[Any, ...]", argval)[-1] if type(argval) is tuple else argval)


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
