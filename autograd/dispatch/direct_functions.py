"""Catalogue functions that pass their operands to one op, generated from the op and a docstring.

Users get them without the wrapper of `argument_errors.py`, since dispatch itself names an operand of a wrong type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from raygrad.tracebacks import leave

from ..registry.codegen import ABSENT
from ..registry.registry import Op
from .dispatch import call_few
from .spellings import missing_argument, respelled

DIRECT: set[Any] = set()
"""The functions that are made here."""

OfOne = Callable[[Any], Any]
OfTwo = Callable[[Any, Any], Any]


def unary_function(op: Op, module: str, doc: str) -> OfOne:
    """Return the function of `module` that applies an op to one operand, named like the op."""

    def function(input: Any = ABSENT, **spelled: Any) -> Any:
        try:
            if spelled:
                return respelled(made, {"input": input}, spelled)
            return call_few(op, input)
        except BaseException as error:  # of any kind: it goes on as it is
            if input is ABSENT and not spelled:
                raise missing_argument(op.name, "input") from None
            leave(error)
            raise

    made = _named(function, op.name, module, doc, ("input",))
    return made


def binary_function(op: Op, module: str, doc: str) -> OfTwo:
    """Return the function of `module` that applies an op to two operands, named like the op."""

    def function(input: Any = ABSENT, other: Any = ABSENT, **spelled: Any) -> Any:
        try:
            if spelled or other is ABSENT:
                return respelled(made, {"input": input, "other": other}, spelled)
            return call_few(op, input, other)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    made = _named(function, op.name, module, doc, ("input", "other"))
    return made


def _named(function: Any, name: str, module: str, doc: str, parameters: tuple[str, ...]) -> Any:
    """Give a function the name by which it is pickled, documented and shown in a traceback, and the signature that it
    is documented with."""
    function.__signature__ = inspect.Signature(
        [inspect.Parameter(one, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Any") for one in parameters]
    )
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = module, doc
    DIRECT.add(function)
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    return function
