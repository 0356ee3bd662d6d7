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
    given: Any = function
    parameters = [
        p.replace(annotation=p.empty, default=p.default if p.default is p.empty else None)
        for p in inspect.signature(function).parameters.values()
    ]
    named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    starred = [f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in parameters]
    positional = starred[: len(starred) - len(named)]
    plain = ", ".join([*positional, *(f"{name}={name}" for name in named)])
    args = "".join(f"{name}, " for name in positional)
    kwargs = ", ".join(f"'{name}': {name}" for name in named)
    source = f"def made{inspect.Signature(parameters)}:\n" + body.format(plain=plain, args=args, kwargs=kwargs)
    space: dict[str, Any] = {**names, "_function": function}
    space["__name__"] = module  # by which whoever looks for the user's line knows that this is none
    exec(source, space)
    made: Any = space["made"]
    made.__defaults__, made.__kwdefaults__ = given.__defaults__, given.__kwdefaults__
    functools.update_wrapper(made, function)
    made.__module__ = module
    return made
