"""Random generators that user code uses besides raygrad's: those of NumPy, Python, torch and CuPy, global or captured
(DR-15).

Their numbers depend on where and when code runs. The client warns by it when it ships code. No user code runs.
"""

from __future__ import annotations

import builtins
import dis
import random
import sys
from collections.abc import Callable, Iterator
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from .bytecode import inner_codes
from .guard import Generator
from .importable import imports_alike, is_well_known
from .visitor import reachable

_SEEDS_ITSELF: Final = random.SystemRandom
_METHODS: Final = (BuiltinMethodType, MethodType)
_HOLDERS: Final = ("functools", "collections", "types")
"""Modules of Python whose objects hold those of users: `partial`, `deque`, `SimpleNamespace`."""
_OF_TORCH: Final = frozenset(
    "bernoulli binomial dropout multinomial normal poisson rand rand_like randint randint_like randn randn_like "
    "randperm".split()
)
"""Functions of torch that draw from its global generator unless they are told another one."""


def foreign_generator_in(obj: Any) -> str | None:
    """Return what names a generator from which user code draws, or None: `np.random.rand`, a captured `Generator` or a
    method of it, or `stats.norm.rvs` of SciPy, which draws from NumPy's unless it is told another one."""
    for value in reachable(obj, _may_be_of_the_user):
        owner = value.__self__ if isinstance(value, _METHODS) else value
        if _is_generator(owner):
            return f"a captured {type(owner).__name__}"
        if type(value) is FunctionType and not imports_alike(value.__module__):
            found = _drawn_from(value.__code__, _variables_of(value))
            if found is not None:
                return found
    return None


def _is_generator(obj: Any) -> bool:
    if isinstance(obj, Generator):
        return not isinstance(obj, _SEEDS_ITSELF)
    return type(obj).__name__ == "Generator" and type(obj).__module__ == "torch._C"


def _may_be_of_the_user(obj: Any) -> bool:
    owner = obj.__self__ if isinstance(obj, _METHODS) else obj
    if type(obj) is ModuleType:
        return False
    if _is_generator(owner) or type(obj).__module__ in _HOLDERS:
        return True
    return not is_well_known(obj) and not str(getattr(obj, "__module__", "")).startswith("torch.")


def _variables_of(function: FunctionType) -> Callable[[str], Any]:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    space = function.__globals__

    def value(name: str) -> Any:
        if name in cells:
            try:
                return cells[name].cell_contents
            except ValueError:  # not bound yet
                return None
        return space.get(name, vars(builtins).get(name))

    return value


def _drawn_from(code: CodeType, value: Callable[[str], Any]) -> str | None:
    """Return how code names a generator's method, inner functions included."""
    constants: Any = code.co_consts
    passed = {name for one in constants if isinstance(one, tuple) for name in cast("tuple[Any, ...]", one)}
    for root, path in _dotted_names(code, value):
        found = root
        for name in path[1:]:
            inside = isinstance(found, ModuleType) or (name == "rvs" and type(found).__module__.startswith("scipy."))
            found = getattr(found, name, None) if inside else None
        owner = found.__self__ if isinstance(found, _METHODS) else None
        if _is_generator(owner):
            return ".".join(path)
        if path[-1] == "rvs" and found is not None and "random_state" not in passed:
            return ".".join(path)
        if _draws_globally(found) and "generator" not in passed:
            return ".".join(path)
    for inner in inner_codes(code):
        found = _drawn_from(inner, value)
        if found is not None:
            return found
    return None


def _draws_globally(function: Any) -> bool:
    """Tell whether a function is one of torch or CuPy that draws from a global generator."""
    module = getattr(function, "__module__", None)
    if module in ("torch", "torch.nn.functional"):
        return getattr(function, "__name__", None) in _OF_TORCH
    return isinstance(module, str) and module.startswith("cupy.random.") and not isinstance(function, type)


def _dotted_names(code: CodeType, value: Callable[[str], Any]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield how code names globals, variables of enclosing functions and what it imports itself, with attributes:
    `a.b.c` as (a, b, c), after the value of `a`."""
    imported: dict[str, Any] = {}
    module: Any = None
    root: Any = None
    path: tuple[str, ...] = ()
    for one in dis.get_instructions(code):
        name = str(one.argval)
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            path = path and (*path, name)
            continue
        if one.opname in ("PRECALL", "CACHE", "PUSH_NULL", "EXTENDED_ARG"):
            continue
        if path:
            yield root, path
            path = ()
        if one.opname == "IMPORT_NAME":
            module = sys.modules.get(name)
        elif one.opname == "IMPORT_FROM":
            root = getattr(module, name, None)
        elif one.opname.startswith("STORE_FAST"):
            imported[name] = root if root is not None else module
        elif one.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"):
            root, path = value(name), (name,)
        elif one.opname.startswith("LOAD_FAST") and name in imported:
            root, path = imported[name], (name,)
        if one.opname not in ("IMPORT_NAME", "IMPORT_FROM", "STORE_FAST"):
            module = None
        if not path and one.opname != "IMPORT_FROM":
            root = None
    if path:
        yield root, path
