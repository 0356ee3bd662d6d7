"""Evenly spaced numbers and their powers: linspace, logspace.

Other tensors that are made of numbers are in `creation`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError, MissingKernel

from ..core import dtypes
from ..tensor.tensor import Tensor
from .creation import check_number, check_steps, float_dtype, made_leaf, numbers_of
from .operand_errors import wrong_argument
from .out_arguments import fill


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `steps` numbers evenly spaced from `start` to `end`, both included. They are counted from the nearer end,
    in the precision of the result; whole ones are cut off.

    Raises:
        RuntimeError: `steps` is negative.
    """
    if out is not None:
        return fill(linspace, (start, end, steps), out, dtype, device, requires_grad)
    start, end = (x.item() if hasattr(x, "item") else x for x in (start, end))
    _check_steps("linspace", start, end, steps)
    if dtype is None and (isinstance(start, complex) or isinstance(end, complex)):
        dtype = dtypes.of_number(1j)
    wanted = float_dtype(dtype)
    if wanted.kind == "b":
        raise MissingKernel('"linspace" not implemented for bool: make numbers and convert them')
    return made_leaf(device, lambda xp: _evenly(xp, start, end, int(steps), wanted), requires_grad)


def _check_steps(name: str, start: Any, end: Any, steps: Any) -> None:
    """Check the bounds and the number of steps.

    Raises:
        TypeError: they are no numbers, or the steps no integer.
        RuntimeError: the steps are less than none.
    """
    check_number(name, "start", 1, start)
    check_number(name, "end", 2, end)
    if not isinstance(steps, int | np.integer):
        raise wrong_argument(name, "steps", 3, "int", type(steps).__name__)
    if steps < 0:
        raise AutogradError("number of steps must be non-negative")


def _evenly(xp: Any, start: Any, end: Any, steps: int, dtype: Any) -> Any:
    """Return the array of `linspace`."""
    if steps < 2:
        return xp.full((steps,), start, dtype)
    first, last = np.asarray(start).astype(dtype)[()], np.asarray(end).astype(dtype)[()]
    counted = dtype.type if dtype.kind in "fc" else np.float64
    step = (counted(last) - counted(first)) / counted(steps - 1)
    number = xp.arange(steps)
    near = first + step * number.astype(counted)
    far = last - step * (steps - 1 - number).astype(counted)
    return xp.where(number < steps // 2, near, far).astype(dtype)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `steps` powers of `base` whose exponents are evenly spaced from `start` to `end`; see `linspace`.

    Raises:
        RuntimeError: `steps` is negative.
    """
    if out is not None:
        return fill(logspace, (start, end, steps, base), out, dtype, device, requires_grad)
    start, end = (x.item() if hasattr(x, "item") else x for x in (start, end))
    _check_steps("logspace", start, end, steps)
    if dtype is None and any(isinstance(x, complex) for x in (start, end)):
        dtype = dtypes.of_number(1j)
    wanted = float_dtype(dtype)
    exponents = wanted if wanted.kind in "fc" else dtypes.float64
    if wanted.kind in "iu":
        start, end = int(start), int(end)

    def powers(xp: Any) -> Any:
        with np.errstate(all="ignore"):
            return (exponents.type(base) ** _evenly(xp, start, end, int(steps), exponents)).astype(wanted)

    return made_leaf(device, powers, requires_grad)


def range(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the numbers from `start` (0 by default) up to `end`, which is included, `step` apart. PyTorch advises
    `arange`, which has the other convention.

    Raises:
        RuntimeError: a step of zero, or one that leads away from `end`; bounds that are not finite.
    """
    if end is None:
        start, end = 0, start
    start, end, step = numbers_of("range", start, end, step)
    check_steps(start, end, step)
    wanted = float_dtype(dtype)
    count = int((end - start) / step) + 1
    return made_leaf(device, lambda xp: (start + step * xp.arange(count)).astype(wanted), requires_grad)
