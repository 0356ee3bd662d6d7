"""Catalogue functions that pass their operands to one op, generated from the op and a docstring.

Users get them without the wrapper of `argument_errors.py`, since dispatch itself names an operand of a wrong type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raygrad.tracebacks import leave

from ..registry.registry import Op
from .dispatch import call_few

OfOne = Callable[[Any], Any]
OfTwo = Callable[[Any, Any], Any]


def unary_function(op: Op, module: str, doc: str) -> OfOne:
    """Return the function of `module` that applies an op to one operand, named like the op."""

    def function(input: Any) -> Any:
        try:
            return call_few(op, input)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    return _named(function, op.name, module, doc)


def binary_function(op: Op, module: str, doc: str) -> OfTwo:
    """Return the function of `module` that applies an op to two operands, named like the op."""

    def function(input: Any, other: Any) -> Any:
        try:
            return call_few(op, input, other)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    return _named(function, op.name, module, doc)


def _named(function: Any, name: str, module: str, doc: str) -> Any:
    """Give a function the name by which it is pickled, documented and shown in a traceback."""
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = module, doc
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    return function
