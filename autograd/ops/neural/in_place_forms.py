"""The `inplace` option of activations and dropouts: the result is written to the argument, which is returned.

A decorator of such functions adds it as their last argument, where PyTorch has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...registry.codegen import compile_wrapper
from ..layout.shape import clone


def may_be_in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `input`, and of others by position, with a further option: `inplace` writes the result to
    the tensor."""
    body = (
        "    if inplace:\n"  # of a copy: what is saved of it does not change
        "        return input.copy_(_function(_clone(input), *({args})[1:]))\n"
        "    return _function({plain})\n"
    )
    return compile_wrapper(function, body, {"_clone": clone}, function.__module__, option=("inplace", False))
