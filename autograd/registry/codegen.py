"""Wrappers generated as source text, with the signature of the function that they wrap.

Argument checks, autocast and dtype constraints are added so: a wrapper with `*args, **kwargs` would cost four times as
much at each call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any


def compile_wrapper(function: Callable[..., Any], body: str, names: Mapping[str, Any], module: str) -> Any:
    """Return a function with the signature of another, which it calls.

    Args:
        function: the other, `_function` in the body.
        body: the lines; `{plain}` stands for the arguments of a call, `{args}` for the positional ones as the items of
            a tuple, `{kwargs}` for the keyword-only ones as those of a dict.
        names: what else the body reads.
        module: the module that it says to be of.
    """
    taken: list[str] = []
    positional: list[str] = []
    named: list[str] = []
    variadic = False
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        default = "" if parameter.default is parameter.empty else "=None"
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = True
            taken.append("*" + name)
            positional.append("*" + name)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if not variadic:
                variadic = True
                taken.append("*")
            taken.append(name + default)
            named.append(name)
        else:
            taken.append(name + default)
            positional.append(name)
    plain = ", ".join([*positional, *(f"{name}={name}" for name in named)])
    args = "".join(f"{name}, " for name in positional)
    kwargs = ", ".join(f"'{name}': {name}" for name in named)
    source = f"def made({', '.join(taken)}):\n" + body.format(plain=plain, args=args, kwargs=kwargs)
    space: dict[str, Any] = {**names, "_function": function}
    space["__name__"] = module  # by which whoever looks for the user's line knows that this is none
    exec(source, space)
    made: Any = space["made"]
    given: Any = function
    made.__defaults__, made.__kwdefaults__ = given.__defaults__, given.__kwdefaults__
    functools.update_wrapper(made, function)
    made.__module__ = module
    return made
