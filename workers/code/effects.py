"""Effects of user code, from its names and stores: on gradients, variables, attributes and containers.

Shipping warns by them, and the recorder decides by them which gradients a node returns. No user code runs."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.tensor.tensor import Tensor

from .bytecode import (
    ARRAY_MUTATORS,
    OUT,
    contents_changed,
    inner_codes,
    paths_to,
    stored_outside,
    stores_attribute,
    writes_items,
)
from .guard import ABSENT
from .importable import is_well_known
from .visitor import DEPTH, PLAIN, TRANSPARENT, Part, parts, reachable

ADDS, READS, REPLACES = 1, 2, 4
"""Flags: effects of code on the `.grad` of leaves that are not its own: changes it, reads it, assigns it."""

_EVERY_EFFECT: Final = ADDS | READS | REPLACES
_HOLDERS: Final = (partial, deque)
"""Classes of libraries whose instances hold objects of the user's."""
_VARIABLES: Final = frozenset({"cell", "global", "default", "keyword default"})
_CONSTRUCTORS: Final = frozenset(("__init__", "__new__", "__post_init__", "__setstate__", "__init_subclass__"))
_STEPS: Final = frozenset(("step", "zero_grad", "load_state_dict", "add_param_group"))


# ---- on gradients ---------------------------------------------------------------------------------------------------


def gradient_effects(obj: Any) -> int:
    """Return the possible effects of code on the `.grad` of captured leaves and arguments: a sum of ADDS, READS and
    REPLACES. It goes by names: `backward` called, `.grad` loaded or stored, in the code or in functions that it
    reaches. A name that stands for a function of the user's, as in `backward(kept)` and `solver.backward(kept)`, counts
    by what that function does."""
    found = 0
    waiting, seen = [obj], set[int]()
    while waiting and found != _EVERY_EFFECT:
        for value in reachable(waiting.pop(), _may_be_of_the_user):
            if type(value) is FunctionType and id(value) not in seen:
                seen.add(id(value))
                found |= _of_gradients_in(value.__code__, value.__globals__, _free_variables(value), waiting)
    return found


def _may_be_of_the_user(obj: Any) -> bool:
    """Modules are skipped: the names that a function reads of one are among the function's parts."""
    return type(obj) is not ModuleType and (not is_well_known(obj) or isinstance(obj, _HOLDERS))


def _free_variables(function: FunctionType) -> dict[str, Any]:
    """Return what the variables of enclosing functions hold, as far as they are bound."""
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found


def _of_gradients_in(code: CodeType, space: Mapping[str, Any], free: Mapping[str, Any], named: list[Any]) -> int:
    """Return the effects of a function's code, with its globals and the variables of enclosing functions; append the
    functions of the user's that it means by `backward` and `.grad`."""
    found = 0
    variables = frozenset((*code.co_cellvars, *code.co_freevars))
    for name, effect in (("backward", ADDS), ("grad", READS)):
        if name in code.co_names:
            for path in paths_to(code, name):
                meant = _meant_by(path, free if path and path[0] in variables else space)
                if meant is None:
                    found |= effect
                else:
                    named.append(meant)
    if "grad" in code.co_names and stores_attribute(code, "grad"):
        found |= ADDS | REPLACES
    for inner in inner_codes(code):
        outer = {name: value for name, value in free.items() if name not in code.co_cellvars}
        found |= _of_gradients_in(inner, space, outer, named)
    return found


def _meant_by(path: tuple[str, ...], bound: Mapping[str, Any]) -> FunctionType | None:
    """Return the function that code means by a dotted path, if it is none of ours; None if that is not sure."""
    if not path:
        return None
    found: Any = bound.get(path[0], ABSENT)
    for name in path[1:]:
        found = ABSENT if isinstance(found, Tensor) else inspect.getattr_static(found, name, ABSENT)
    if isinstance(found, staticmethod | classmethod | MethodType):
        found = cast(Any, found).__func__
    return found if isinstance(found, FunctionType) and not found.__module__.startswith("raygrad.") else None


# ---- on containers, variables and attributes ------------------------------------------------------------------------


def name_changed_by(obj: Any, is_installed: Callable[[Any], bool]) -> str | None:
    """Return the name of a variable or attribute that code may change and that outlives its call; None if there is
    none. Contents of containers do not count (`writes_items`). Objects that are `is_installed` are not searched."""
    return _ChangeSearch(is_installed).of(obj, False, DEPTH)


class _ChangeSearch:
    """The search for a changed name, which visits each object once."""

    def __init__(self, is_installed: Callable[[Any], bool]) -> None:
        self._is_installed = is_installed
        self._seen: dict[int, Any] = {}
        self._classes: set[type[Any]] = set()

    def of(self, obj: Any, bound: bool, depth: int) -> str | None:
        """Return the name that an object's code changes; if `bound`, its first argument outlives the call."""
        if id(obj) in self._seen or not depth or self._is_installed(obj):
            return None
        self._seen[id(obj)] = obj
        held = parts(obj)
        if type(obj) is FunctionType:
            code = obj.__code__
            found = stored_outside(code, frozenset(code.co_freevars), bound, _leaves_among(held))
            if found is not None:
                return found
            for role, name, _, value in held:
                if role in ("cell", "global") and _changes_contents(obj.__code__, name, value):
                    return name
        return self._of_parts(held, depth)

    def _of_parts(self, held: list[Part], depth: int) -> str | None:
        """Return the name that the parts of an object change."""
        for role, _, _, value in sorted(
            held, key=lambda part: part[0] != "class"
        ):  # what an object does itself comes first
            if role == "base":  # what a Function inherits counts as a library's: it is not warned of
                continue
            if role == "class":
                found = self._of_methods(value, depth - 1)
            else:
                found = self.of(value, role == "method", depth - (role not in TRANSPARENT))
            if found is not None:
                return found
        return None

    def _of_methods(self, cls: type[Any], depth: int) -> str | None:
        """Return the attribute that the methods of a user object change; None for a class that was looked at before."""
        if cls in self._classes:
            return None
        self._classes.add(cls)
        for base in cls.__mro__:
            for name, member in () if self._is_installed(base) else list(vars(base).items()):
                if name not in _CONSTRUCTORS:
                    found = self.of(member, isinstance(member, FunctionType), depth)
                    if found is not None:
                        return found
        return None


def functions_in(obj: Any) -> list[FunctionType]:
    """Return the functions of the user's that an object is or holds; not those of its class."""
    return [one for one in reachable(obj, _may_be_of_the_user, omit="class") if type(one) is FunctionType]


def changes_variables(function: FunctionType) -> bool:
    """Tell whether a function may change a variable, an attribute or what a variable stands for, so that it outlives
    the call; by its own code, without that of what it calls."""
    code, held = function.__code__, parts(function)
    if stored_outside(code, frozenset(code.co_freevars), False, _leaves_among(held)) is not None:
        return True
    for role, name, _, value in held:
        if role in ("default", "keyword default"):
            if isinstance(value, _CONTAINERS) and writes_items(code):
                return True
        elif role in _VARIABLES:
            if isinstance(value, _CONTAINERS) and next(contents_changed(code, name), None) is not None:
                return True
            if _changes_contents(code, name, value):
                return True
    return False


def _changes_contents(code: CodeType, name: str, value: Any) -> bool:
    """Tell whether code changes an array that a variable stands for, or what is in an object of the user's: items, or
    containers and arrays among attributes. Of a container itself the search knows by other means."""
    if isinstance(value, ModuleType | FunctionType | Tensor) or type(value) in PLAIN:
        return False
    for path, method in contents_changed(code, name):
        changed: Any = value
        for attribute in path:
            changed = ABSENT if attribute == "[]" else inspect.getattr_static(changed, attribute, ABSENT)
        if isinstance(changed, np.ndarray):
            return not method or method == OUT or method in ARRAY_MUTATORS
        inside = path and not isinstance(value, type)
        if inside and (isinstance(changed, _CONTAINERS) or (changed is ABSENT and not method)):
            return True
    return False


_CONTAINERS: Final = (list, dict, set, bytearray, deque)


def _leaves_among(held: list[Part]) -> frozenset[str]:
    """Return the variables that are leaves, whose `.grad` returns to the client (`gradient_effects`)."""
    variables = [(name, value) for role, name, _, value in held if role in _VARIABLES]
    return frozenset(
        [name for name, value in variables if isinstance(value, Tensor) and value.requires_grad and value.is_leaf]
    )


def optimizer_call_in(obj: Any) -> str | None:
    """Return the method that code calls on a captured optimiser: "optimizer.step"; None if none."""
    if isinstance(obj, MethodType):
        return optimizer_call_in(obj.__func__)
    if not isinstance(obj, FunctionType):
        return None
    called = _STEPS.intersection(obj.__code__.co_names)
    for role, name, _, value in parts(obj) if called else ():
        if role in _VARIABLES and _is_optimizer(value):
            return f"{name}.{min(called)}"
    return None


def _is_optimizer(value: Any) -> bool:
    return any([cls.__module__.startswith("raygrad.optim") for cls in type(value).__mro__])
