"""Wrappers generated as source text, with the signature of the function that they wrap.

Argument checks, autocast and dtype constraints are added so: a wrapper with `*args, **kwargs` would cost four times as
much at each call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from raygrad.tracebacks import leave


def compile_wrapper(function: Callable[..., Any], body: str, names: Mapping[str, Any], module: str) -> Any:
    """Return a function with the signature of another, which it calls.

    Args:
        function: the other, `_function` in the body.
        body: the lines; `{plain}` stands for the arguments of a call, `{args}` for the positional ones as the items of
            a tuple, `{kwargs}` for the keyword-only ones as those of a dict.
        names: what else the body reads.
        module: the module that it says to be of.
    """
    given: Any = function
    starred, named, header = _signature(inspect.unwrap(given))
    plain = ", ".join([*starred, *(f"{name}={name}" for name in named)])
    args = "".join(f"{name}, " for name in starred)
    kwargs = ", ".join(f"'{name}': {name}" for name in named)
    source = f"def made({header}):\n" + body.format(plain=plain, args=args, kwargs=kwargs)
    space: dict[str, Any] = {**names, "_function": function}
    space["__name__"] = module  # by which whoever looks for the user's line knows that this is none
    exec(_compiled(source), space)
    made: Any = space["made"]
    made.__defaults__, made.__kwdefaults__ = given.__defaults__, given.__kwdefaults__
    functools.update_wrapper(made, function)
    made.__module__ = module
    return made


def with_boundary(function: Callable[..., Any], module: str) -> Any:
    """Return a public function whose errors show the user's frames; see `raygrad.tracebacks`."""
    body = (
        "    try:\n"
        "        return _function({plain})\n"
        "    except BaseException as error:\n"
        "        _leave(error)\n"
        "        raise\n"
    )
    return compile_wrapper(function, body, {"_leave": leave}, module)


_compiled = functools.cache(functools.partial(compile, filename="<string>", mode="exec"))
"""Compiles a source: of the hundreds of functions that are wrapped when the package is loaded, many share signatures
and so sources."""


def _signature(function: Any) -> tuple[list[str], list[str], str]:
    """Return the positional parameters of a function, starred where it takes any number; those by keyword only; and
    the text of a signature in which every default is None. `inspect.signature` takes ten times as long."""
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
    return positional, named, ", ".join(shown)
