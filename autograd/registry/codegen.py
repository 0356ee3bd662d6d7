"""Wrappers generated as source text, with the signature of the function that they wrap.

Argument checks, autocast and dtype constraints are added so: a wrapper with `*args, **kwargs` would cost four times as
much at each call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

from raygrad.tracebacks import leave


class Absent:
    """The value of a parameter that has no default and was not given, in a wrapper that takes further keywords."""


ABSENT = Absent()


def compile_wrapper(
    function: Callable[..., Any],
    body: str,
    names: Mapping[str, Any],
    module: str,
    *,
    spelled: bool = False,
    exactly: bool = False,
    option: tuple[str, Any] | None = None,
) -> Any:
    """Return a function with the signature of another, which it calls.

    Args:
        function: the other, `_function` in the body.
        body: the lines; `{plain}` stands for the arguments of a call, `{args}` for the positional ones as the items of
            a tuple, `{kwargs}` for the keyword-only ones as those of a dict.
        names: what else the body reads.
        module: the module that it says to be of.
        spelled: whether it takes further keywords, `_spelled` in the body. Its positional parameters may then be
            missing; `{given}` stands for a dict of all by name, and `{missing}` for the beginning of a condition, that
            the last of those without default is.
        exactly: whether it takes what the other itself takes, further keywords included, and not what that wraps.
        option: the name and the default of one more positional parameter, behind those of the other, for the body.
    """
    given: Any = function
    starred, named, others, header = _signature(given if exactly else inspect.unwrap(given))
    defaults: tuple[Any, ...] = given.__defaults__ or ()
    fields: dict[str, str] = {}
    passed: list[str] = []
    if exactly and others:
        passed = [f"**{others}"]
        header = ", ".join([*filter(None, [header]), *passed])
    if spelled:
        required = len(starred) - len(defaults)
        header = ", ".join([*[f"{name}=None" for name in starred[:required]], *header.split(", ")[required:]])
        header += ", **_spelled" if header else "**_spelled"
        fields["missing"] = f"{starred[required - 1]} is _absent or " if required else ""
        fields["given"] = "{" + "".join(f"'{name}': {name}, " for name in [*starred, *named]) + "}"
        defaults = (ABSENT,) * required + defaults
    if option is not None:
        header, defaults = f"{header}, {option[0]}=None", (*defaults, option[1])
    plain = ", ".join([*starred, *(f"{name}={name}" for name in named), *passed])
    args = "".join(f"{name}, " for name in starred)
    kwargs = ", ".join(f"'{name}': {name}" for name in named)
    source = f"def made({header}):\n" + body.format(plain=plain, args=args, kwargs=kwargs, **fields)
    space: dict[str, Any] = {**names, "_function": function, "_absent": ABSENT}
    space["__name__"] = module  # by which whoever looks for the user's line knows that this is none
    exec(_compiled(source), space)
    made: Any = space["made"]
    made.__defaults__, made.__kwdefaults__ = defaults or None, given.__kwdefaults__
    functools.update_wrapper(made, function)
    made.__module__ = module
    if option is not None:
        del made.__wrapped__  # whose signature is another one
    return made


def has_boundary(function: FunctionType) -> bool:
    """Tell whether errors of a function show the user's frames without a wrapper."""
    names = function.__code__.co_names
    return "leave" in names or "_leave" in names


def with_boundary(function: Callable[..., Any], module: str) -> Any:
    """Return a public function whose errors show the user's frames; see `raygrad.tracebacks`."""
    body = (
        "    try:\n"
        "        return _function({plain})\n"
        "    except BaseException as error:\n"
        "        _leave(error)\n"
        "        raise\n"
    )
    return compile_wrapper(function, body, {"_leave": leave}, module, exactly=True)


def offered(value: Any, module: str, name: str) -> Any:
    """Return what a public module offers under a name: a function with the boundary, anything else as it is."""
    if type(value) is not FunctionType or has_boundary(value):
        return value
    made = with_boundary(value, module)
    made.__qualname__ = name
    return made


_compiled = functools.cache(functools.partial(compile, filename="<string>", mode="exec"))
"""Compiles a source: of the hundreds of functions that are wrapped when the package is loaded, many share signatures
and so sources."""


def _signature(function: Any) -> tuple[list[str], list[str], str, str]:
    """Return the positional parameters of a function, starred where it takes any number; those by keyword only; that
    of further keywords, or ""; and the text of a signature without that, in which every default is None.
    `inspect.signature` takes ten times as long."""
    code: CodeType = function.__code__
    count = code.co_argcount
    names = code.co_varnames
    positional, named = list(names[:count]), list(names[count : count + code.co_kwonlyargcount])
    required = count - len(function.__defaults__ or ())
    shown = [name if place < required else f"{name}=None" for place, name in enumerate(positional)]
    if code.co_posonlyargcount:
        shown.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        positional.append(f"*{names[count + len(named)]}")
        shown.append(positional[-1])
    elif named:
        shown.append("*")
    by_default: dict[str, Any] = function.__kwdefaults__ or {}
    shown += [f"{name}=None" if name in by_default else name for name in named]
    others = ""
    if code.co_flags & inspect.CO_VARKEYWORDS:
        others = names[count + len(named) + bool(code.co_flags & inspect.CO_VARARGS)]
    return positional, named, others, ", ".join(shown)
