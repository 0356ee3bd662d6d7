"""Catalogue functions that pass their operands to one op, generated from the op and a docstring.

Users get them without the wrapper of `argument_errors.py`, since dispatch itself names an operand of a wrong type.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from raygrad.tracebacks import leave

from ..registry.codegen import ABSENT
from ..registry.registry import Op
from ..tensor.tensor import Tensor
from .dispatch import call_few
from .operand_errors import wrong_argument
from .spellings import missing_argument, respelled
from .tensor_arguments import NUMBERS, number_among, tensor_positions

DIRECT: dict[Any, Op] = {}
"""The functions that are made here, and the ops that they apply."""

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
            if input is not ABSENT or spelled:
                leave(error)
                raise
            missing = missing_argument(op.name, "input")
        try:
            raise missing
        except TypeError:
            leave(missing)
            raise

    made = _named(function, op, op.name, module, doc, ("input",))
    return made


def binary_function(op: Op, module: str, doc: str) -> OfTwo:
    """Return the function of `module` that applies an op to two operands, named like the op."""

    def function(input: Any = ABSENT, other: Any = ABSENT, **spelled: Any) -> Any:
        try:
            if spelled or other is ABSENT:
                return respelled(made, {"input": input, "other": other}, spelled)
            if other is None:
                raise wrong_argument(op.name, "other", 2, "Tensor or a number", "NoneType")
            return call_few(op, input, other)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    made = _named(function, op, op.name, module, doc, ("input", "other"))
    return made


@functools.cache
def refusing_numbers(function: Callable[..., Any], method: bool) -> OfTwo:
    """Return what serves users as a function of two operands, or as the `method` of that name: it refuses a number for
    one that must be a tensor."""
    op = DIRECT[function]
    positions = tensor_positions(function)

    def first(input: Any = ABSENT, other: Any = ABSENT, **spelled: Any) -> Any:
        try:
            if spelled or other is ABSENT:
                return respelled(made, {"input": input, "other": other}, spelled)
            if type(input) is not Tensor and type(input) in NUMBERS:
                raise number_among(function, (input, other), method)
            if other is None:
                raise wrong_argument(op.name, "other", 2 - method, "Tensor or a number", "NoneType")
            return call_few(op, input, other)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    def both(input: Any = ABSENT, other: Any = ABSENT, **spelled: Any) -> Any:
        try:
            if spelled or other is ABSENT:
                return respelled(made, {"input": input, "other": other}, spelled)
            if type(input) is not Tensor or type(other) is not Tensor:
                for position, operand in enumerate((input, other)):
                    if type(operand) in NUMBERS or not hasattr(operand, "dtype"):
                        name, kind = ("input", "other")[position], type(operand).__name__
                        raise wrong_argument(op.name, name, position + 1 - method, "Tensor", kind)
            return call_few(op, input, other)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    made = _named(
        both if 1 in positions else first, op, op.name, function.__module__, function.__doc__ or "", ("input", "other")
    )
    made.__wrapped__ = function
    return made


def _named(function: Any, op: Op, name: str, module: str, doc: str, parameters: tuple[str, ...]) -> Any:
    """Give a function the name by which it is pickled, documented and shown in a traceback, and the signature that it
    is documented with."""
    function.__signature__ = inspect.Signature(
        [inspect.Parameter(one, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Any") for one in parameters]
    )
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = module, doc
    DIRECT[function] = op
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    return function
