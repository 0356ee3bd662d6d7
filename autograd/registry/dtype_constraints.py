"""Dtype constraints of ops: checks that refuse a kind of dtype, and the decorator for functions made of ops.

Kinds are NumPy's letters: "b" bool, "i" and "u" integers, "f" floating, "c" complex. Dispatch runs an op's check
(`Op.admits`) before the op runs or is recorded, but not on bare arrays of a derivative rule. A function of several ops
declares its own by `takes`, so that the error names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from raygrad.errors import AutogradError, MissingKernel

from ..core.modes import is_grad_enabled
from .codegen import compile_wrapper
from .registry import Admits

P = ParamSpec("P")
R = TypeVar("R")


def only(kinds: str) -> Admits:
    """Return the check that an op is given a dtype of one of `kinds`; it raises `MissingKernel` for others."""

    def admits(name: str, operands: Sequence[Any], dtype: Any) -> None:
        if dtype.kind in kinds:
            return
        if "f" not in kinds:
            instead = "it is for integers and bools" if "b" in kinds else "it is for integers"
        elif dtype.kind == "c":
            instead = "it is for real numbers; take .real, .imag or .abs() first"
        else:
            integers = dtype.kind == "b" and "i" in kinds
            instead = f"convert it first, as by .to(raygrad.{'int64' if integers else 'float32'})"
        raise MissingKernel(f'"{name}" not implemented for {dtype}: {instead}')

    return admits


no_complex = only("biuf")
real_numbers = only("iuf")
real_floats = only("f")
no_bools = only("iufc")
floats_alone = only("fc")
whole_numbers = only("iub")
integers_alone = only("iu")


def differentiated(operand: Any) -> bool:
    """Tell whether a derivative by an operand is wanted."""
    return is_grad_enabled() and getattr(operand, "requires_grad", False)


def no_complex_to_compare(name: str, operands: Sequence[Any], dtype: Any) -> None:
    """Check that no complex numbers are compared along a dimension: no kernel runs where there are none, or only one
    that has no dimension, and it is the kernel that PyTorch lacks; but for a derivative it asks first."""
    (operand,) = operands
    if dtype.kind == "c" and ((operand.ndim and 0 not in operand.shape) or differentiated(operand)):
        no_complex(name, operands, dtype)


def checked(check: Callable[[str, tuple[Any, ...]], None]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function made of ops: `check(name, arguments)` runs first, and raises for what it does
    not take."""

    def around(function: Callable[P, R]) -> Callable[P, R]:
        body = "    _check(_name, ({args}))\n    return _function({plain})\n"
        made = compile_wrapper(function, body, {"_check": check, "_name": function.__name__}, __name__)
        made.__module__ = function.__module__
        return made

    return around


def alike(*positions: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function made of ops: its arguments at these positions, where they are tensors or
    arrays, have one dtype.

    Raises:
        RuntimeError: they have several.
    """

    def check(name: str, given: tuple[Any, ...]) -> None:
        dtypes = [given[place].dtype for place in positions if hasattr(given[place], "dtype")]
        if any(dtype != dtypes[0] for dtype in dtypes[1:]):
            found = " and ".join([str(dtype) for dtype in dtypes])
            raise AutogradError(f"{name}: expected tensors of one dtype, but got {found}; convert one of them")

    return checked(check)


def takes(admits: Admits, operands: int = 1) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function made of ops: its first `operands` arguments, where they are tensors or arrays,
    have dtypes that `admits` does.

    Raises:
        NotImplementedError: one has another.
    """

    def check(name: str, given: tuple[Any, ...]) -> None:
        for operand in given[:operands]:
            dtype = getattr(operand, "dtype", None)
            if dtype is not None:
                admits(name, given, dtype)

    return checked(check)
