"""In-place forms of activations and dropouts: the result is written to the argument, which is returned.

`may_be_in_place` decorates such functions: it adds the option `inplace` as their last argument, where PyTorch has it.
`in_place` makes the functions whose names end with an underscore.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...registry.codegen import compile_wrapper
from ..layout.shape import clone

_BARE: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Functions with the option, and what they were made of."""


def may_be_in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `input`, and of others by position, with a further option: `inplace` writes the result to
    the tensor."""
    body = (
        "    if inplace:\n"  # of a copy: what is saved of it does not change
        "        return input.copy_(_function(_clone(input), *({args})[1:]))\n"
        "    return _function({plain})\n"
    )
    made = compile_wrapper(function, body, {"_clone": clone}, function.__module__, option=("inplace", False))
    _BARE[made] = function
    return made


def in_place(function: Callable[..., Any], module: str) -> Callable[..., Any]:
    """Return the form of a function with that option which always writes the result to its first argument; its name
    ends with an underscore."""
    body = "    return input.copy_(_function(_clone(input), *({args})[1:]))\n"
    made = compile_wrapper(_BARE[function], body, {"_clone": clone}, module)
    made.__name__ = made.__qualname__ = f"{function.__name__}_"
    made.__doc__ = f"Write the result of `{function.__name__}` to `input`, and return it; see there."
    del made.__wrapped__  # whose name is another one
    return made
