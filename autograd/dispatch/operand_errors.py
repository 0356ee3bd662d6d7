"""Errors for operands that an op does not take: what is no tensor, shapes that do not fit, a dtype without a kernel.

Dispatch asks after a kernel has failed, or before an op is recorded; functions that would take anything ask first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from raygrad.errors import DtypeError, MissingKernel

from ..registry.registry import Op
from .device_dispatch import compute_dtype, kind_of, missing

MISUSE = (ValueError, IndexError, TypeError, AttributeError)
"""What NumPy raises on operands that do not fit; the shape rule then says it better."""


NUMBERS_ALONE: Final = frozenset("add div floor_divide mul sub".split())
"""Ops that PyTorch applies to numbers alone, too."""

_NO_OPERANDS = (str, bytes, list, tuple, dict, set)


def misfit_of(op: Op, operands: Sequence[Any]) -> DtypeError | None:
    """Return the error for an operand that can be none, if there is one. (Other ops than these may take a tuple, an
    index say, or None, for an operand that is left out.)"""
    if op.promotes is None and len(op.operands) > 1:
        return None
    for position, operand in enumerate(operands):
        if isinstance(operand, _NO_OPERANDS) or (len(op.operands) <= 2 and not is_operand(operand)):
            expected = "Tensor or a number" if len(op.operands) > 1 else "Tensor"
            kind: type[Any] = type(operand)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return wrong_argument(op.name, _name_of(op, position), position + 1, expected, kind.__name__)
    return None


def no_tensor(op: Op, operands: Sequence[Any]) -> DtypeError:
    """Return the error for an op that is given numbers alone."""
    return wrong_argument(op.name, _name_of(op, 0), 1, "Tensor", type(operands[0]).__name__)


def _name_of(op: Op, position: int) -> str:
    """Return what users call an operand."""
    name = op.operands[min(position, len(op.operands) - 1)].removeprefix("*")
    return {"a": "input", "b": "other"}.get(name, name)


def explained(op: Op, params: tuple[Any, ...], datas: Sequence[Any], error: Exception) -> Exception:
    """Return what to raise for an error of a kernel: that an operand is no tensor; what the shape rule says of the
    operands, if it refuses them; that there is no kernel for their dtype, if NumPy says so; else the error itself."""
    misfit = misfit_of(op, datas)
    if misfit is not None:
        return misfit
    if op.infer is not None:
        try:
            op.infer(params, *datas)
        except (RuntimeError, *MISUSE) as better:
            return better
    kind = kind_of(datas)
    if kind != "cpu" and not op.has_kernel(kind, compute_dtype(datas)):
        return missing(op, kind)
    if isinstance(error, TypeError) and "not supported for the input types" in str(error):
        names = ", ".join(sorted({str(data.dtype) for data in datas if hasattr(data, "dtype")}))
        return MissingKernel(f'"{op.name}" not implemented for {names}')
    return error


def is_operand(value: Any) -> bool:
    """Tell whether a value is a tensor, an array or a number."""
    return hasattr(value, "dtype") or isinstance(value, int | float | complex)


def wrong_argument(function: str, name: str, position: int, expected: str, kind: str) -> DtypeError:
    """Return the error for an argument of a wrong kind, as PyTorch words it; position 0 is none, of one given by
    name."""
    where = f" (position {position})" if position > 0 else ""
    return DtypeError(f"{function}(): argument '{name}'{where} must be {expected}, not {kind}")


def check_operand(name: str, value: Any, argument: str = "input", position: int = 1) -> None:
    """Check that an argument of a function that would take anything is a tensor, an array or a number.

    Raises:
        TypeError: it is none.
    """
    if not is_operand(value):
        raise wrong_argument(name, argument, position, "Tensor", type(value).__name__)
