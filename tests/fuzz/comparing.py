"""Compares what a random program left under torch and under raygrad.

A difference is a sentence. Numbers of floating dtype agree to a tolerance, all else exactly; no
failure is forgiven here, `exclusions` lists what is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from .interpreter import Outcome, Seen

EXACT = 1e-8
"""How far numbers of double precision may be apart."""


def builtin_of(error: BaseException) -> type[BaseException]:
    """Return the builtin exception that an error is an instance of."""
    return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


def differences(expected: Outcome, got: Outcome, *, steps: bool = True) -> Iterator[str]:
    """Yield how raygrad's outcome differs from torch's.

    Args:
        steps: an error must come from the same step; in a session it may surface later.
    """
    if expected.error is not None or got.error is not None:
        yield from _error_differences(expected.error, got.error, steps)
        return
    if expected.undefined != got.undefined:
        yield f"the results of grad() are None: {got.undefined}, not {expected.undefined}"
        return
    if len(expected.tensors) != len(got.tensors):
        yield f"{len(got.tensors)} tensors instead of {len(expected.tensors)}"
        return
    tolerance = _tolerance(expected)
    for number, (one, other) in enumerate(zip(expected.tensors, got.tensors, strict=True)):
        # whether the second gradient was undefined, and so nothing was added, a session need not know
        unversioned = not steps and number in expected.gradients
        # what a Function's backward returned has one node for all of it, whose outputs are numbered (H7)
        part = number in expected.parts or number in expected.gradients
        for difference in tensor_differences(one, other, tolerance=tolerance, part=part, unversioned=unversioned):
            yield f"tensor {number}: {difference}"
    yield from log_differences(expected, got, tolerance)


def _tolerance(outcome: Outcome) -> float:
    """Return how far numbers may be apart. Single precision shows in doubles made from it, too; and the sine of a large
    number has no more digits than that number has behind its point."""
    single = any(type(seen) is Seen and seen.value.dtype.name == "float32" for seen in outcome.tensors)
    rounding = float(np.finfo(np.float32 if single else np.float64).eps)
    return max(2e-3 if single else EXACT, 100 * rounding * outcome.angle)


def _error_differences(expected: Any, got: Any, steps: bool) -> Iterator[str]:
    if got is None:
        yield f"no error; torch raised in step {expected[1]}: {_told(expected[0])}"
    elif expected is None:
        yield f"an error in step {got[1]}, none in torch: {_told(got[0])}"
    elif steps and got[1] != expected[1]:
        yield f"an error in step {got[1]}: {_told(got[0])}; torch's in step {expected[1]}: {_told(expected[0])}"
    elif "a view and its base or another view of its base" in str(expected[0]):
        pass  # what cannot be done to a fresh view either may be told first
    elif not isinstance(got[0], builtin_of(expected[0])):
        yield f"another error in step {got[1]}: {_told(got[0])}; torch's: {_told(expected[0])}"


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def tensor_differences(
    expected: Seen | Exception,
    got: Seen | Exception,
    *,
    tolerance: float = EXACT,
    part: bool = False,
    unversioned: bool = False,
) -> Iterator[str]:
    """Yield how two tensors differ; of one of several views, which has its own node, and of a gradient the output
    number is free."""
    if isinstance(expected, Exception):
        return  # a stale view (OU-12), which raygrad refuses to differentiate through only
    if isinstance(got, Exception):
        yield f"cannot be looked at: {got}"
        return
    yield from array_differences("value", expected.value, got.value, tolerance)
    yield from array_differences("grad", expected.grad, got.grad, tolerance)
    for name in ("requires_grad", "is_leaf", "output_nr", "retains_grad", "version", "grad_requires_grad"):
        one, other = getattr(expected, name), getattr(got, name)
        if one != other and not (part and name == "output_nr") and not (unversioned and name == "version"):
            yield f"{name} is {other}, not {one}"


def array_differences(name: str, expected: Any, got: Any, tolerance: float = EXACT) -> Iterator[str]:
    """Yield how two arrays, either of which may be None, differ."""
    if expected is None or got is None:
        if expected is not got:
            yield f"{name} is {got}, not {expected}"
    elif (expected.dtype, expected.shape) != (got.dtype, got.shape):
        yield f"{name} is {got.dtype}{got.shape}, not {expected.dtype}{expected.shape}"
    elif not close(expected, got, tolerance):
        yield f"{name} is {got.tolist()}, not {expected.tolist()}"


def close(expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any], tolerance: float) -> bool:
    """Tell whether two arrays of one shape and dtype are equal up to rounding."""
    if expected.dtype.kind not in "fc":
        tolerance = 0.0
    # of the greatest number: sums of different order cancel differently
    finite = np.abs(expected[np.isfinite(expected)]) if expected.dtype.kind in "fc" else np.zeros(0)
    scale = float(finite.max(initial=1.0))
    if expected.dtype.kind in "fc":  # infinity or NaN: that hangs on the order of a product
        lost = ~np.isfinite(expected)
        if (lost != ~np.isfinite(got)).any():
            return False
        expected, got = expected[~lost], got[~lost]
    return bool(np.allclose(got, expected, rtol=tolerance, atol=tolerance * scale))


def log_differences(expected: Outcome, got: Outcome, tolerance: float) -> Iterator[str]:
    """Yield how the logs differ: hooks and Functions are called in one order, with the same gradients."""
    names, others = [name for name, _ in expected.log], [name for name, _ in got.log]
    if names != others:
        yield f"the log is {others}, not {names}"
        return
    for position, ((name, one), (_, other)) in enumerate(zip(expected.log, got.log, strict=True)):
        ones, others_ = (one, other) if isinstance(one, list) else ([one], [other])
        for a, b in zip_longest(ones, others_):  # whether outputs without gradient (indices) have a place is free
            yield from array_differences(f"log entry {position} ({name})", a, b, tolerance)
