"""NumPy's spellings of arguments, which PyTorch takes wherever it has its own: `axis=` for `dim=`, `x=` for `input=`;
and `out=`, which `out_arguments` defines.

Public functions and methods take further keywords, and come here only if some are given, or if an argument is missing;
so a call that spells its arguments as the signature does pays nothing for it.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from raygrad.tracebacks import leave

from ..registry.codegen import ABSENT, compile_wrapper
from .out_arguments import takes_out, write_to

NUMPYS: Final[Mapping[str, str]] = {
    "a": "input",
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "x1": "input",
    "x2": "other",
}
"""From a name of NumPy's to that of PyTorch."""


def respelled(
    function: Callable[..., Any], given: Mapping[str, Any], spelled: Mapping[str, Any], *, method: bool = False
) -> Any:
    """Call a function with its parameters by name, with further ones by NumPy's names, and with `out=`.

    Args:
        function: the function; its signature says which parameters there are.
        given: its parameters by name, those that are missing as `ABSENT`, others perhaps as their defaults.
        spelled: what was given by a name that is none of them.
        method: it serves as a method, which takes no `out=`.

    Raises:
        TypeError: a name that is unknown, an argument given by both names, one that is missing.
    """
    name = function.__name__
    if "out" in spelled and not method and takes_out(function):
        others = {spelling: value for spelling, value in spelled.items() if spelling != "out"}
        return write_to(name, spelled["out"], given, lambda: respelled(function, given, others))
    parameters = inspect.signature(function).parameters
    arguments = dict(given)
    for spelling, value in spelled.items():
        own = NUMPYS.get(spelling)
        if own is None or own not in parameters:
            near = difflib.get_close_matches(spelling, parameters, 1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; it takes {', '.join(parameters)}"
            raise TypeError(f"{name}() got an unexpected keyword argument '{spelling}'{hint}")
        default = parameters[own].default
        if arguments.get(own, ABSENT) is not (ABSENT if default is inspect.Parameter.empty else default):
            raise TypeError(f"{name}() got the argument '{own}' twice: also as '{spelling}'")
        arguments[own] = value
    missing = [parameter for parameter, value in arguments.items() if value is ABSENT]
    if missing:
        raise missing_argument(name, missing[0])
    positional = [p.name for p in parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    return function(*[arguments[p] for p in positional], **{p: v for p, v in arguments.items() if p not in positional})


_as_method = partial(respelled, method=True)


def missing_argument(function: str, name: str) -> TypeError:
    """Return the error for an argument that is missing, as Python words it."""
    return TypeError(f"{function}() missing 1 required positional argument: '{name}'")


_NAMED = frozenset(("dim", "keepdim", "other"))
_PLAIN = frozenset("add div matmul sub".split())
"""Functions that methods call without a wrapper, which would take a twentieth of their time: as methods they take their
operand by its own name alone."""

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what serves as the method of a catalogue function: a wrapper that takes NumPy's spellings, if one of its
    parameters has such, else the function itself."""
    code: Any = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or code.co_flags & _VARIADIC or _NAMED.isdisjoint(code.co_varnames[1 : _count(code)]):
        return function
    return function if function.__name__ in _PLAIN else taking_spellings(function)


def taking_spellings(function: Callable[..., Any]) -> Any:
    """Return a wrapper of a function or method that takes NumPy's spellings, too."""
    body = (
        "    try:\n"
        "        if {missing}_spelled:\n"
        "            return _respelled(_function, {given}, _spelled)\n"
        "        return _function({plain})\n"
        "    except BaseException as error:\n"
        "        _leave(error)\n"
        "        raise\n"
    )
    made: Any = compile_wrapper(function, body, {"_respelled": _as_method, "_leave": leave}, __name__, spelled=True)
    made.__module__ = function.__module__
    return made


def _count(code: Any) -> int:
    return code.co_argcount + code.co_kwonlyargcount
