"""Error messages of `gradcheck`: which check failed, for which output and input, and where to look first.

Text alone, made from what the checks have computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class JacobianLabel:
    """The name of a Jacobian in messages.

    Attributes:
        output, input: positions of the output and the input.
        part: "real" or "imaginary" if the output is complex.
        output_shape, input_shape: shapes of the two.
        dtype: of the input.
        forward: whether it was computed with forward mode.
    """

    output: int
    input: int
    part: str
    output_shape: tuple[int, ...]
    input_shape: tuple[int, ...]
    dtype: Any
    forward: bool = False

    def title(self) -> str:
        """Name the Jacobian."""
        prefix = f"While considering the {self.part} part of complex outputs only, " if self.part else ""
        mode = "computed with forward mode " if self.forward else ""
        double = self.dtype in (np.float64, np.complex128)
        cause = (
            "the derivative's formula is wrong"
            if double
            else (f"the input is {self.dtype}, whose differences are too coarse to tell whether the formula is wrong")
        )
        return f"{prefix}Jacobian {mode}mismatch for output {self.output} with respect to input {self.input}: {cause}"

    def entry(self, row: int, column: int) -> str:
        """Name one entry."""
        above = [int(i) for i in np.unravel_index(column, self.output_shape)] if self.output_shape else []
        below = [int(i) for i in np.unravel_index(row, self.input_shape)] if self.input_shape else []
        return f"d output[{_index(above)}] / d input[{_index(below)}]"


def _shown(values: Array) -> str:
    return np.array2string(values, separator=", ", max_line_width=120)


def _index(index: Sequence[int]) -> str:
    return ", ".join(str(i) for i in index) if index else "()"


def mismatch(at: JacobianLabel, expected: Array, found: Array, rtol: float, atol: float) -> str:
    """Return the message that two Jacobians differ: the first wrong entry, then all of both."""
    return (
        f"{at.title()},\n{_first_wrong(at, expected, found, rtol, atol)}\n"
        f"numerical:\n{_shown(expected)}\nanalytical:\n{_shown(found)}\n{_hint(expected, found)}"
    )


def fast_mismatch(
    at: JacobianLabel, expected: Any, found: Any, whole: Array, analytical: Array, rtol: float, atol: float
) -> str:
    """Return the message that two random combinations of entries differ, then the whole Jacobians."""
    head = (
        f"{at.title()},\nnumerical: {expected}\nanalytical: {found}\n"
        "These are random combinations of the Jacobian's entries (fast mode). The whole Jacobians:\n"
        f"numerical:\n{_shown(whole)}\nanalytical:\n{_shown(analytical)}\n"
    )
    if np.allclose(analytical, whole, rtol, atol):
        return (
            head + "Entry by entry they agree: the difference is small and spread over many; run with fast_mode=False"
        )
    return f"{head}{_first_wrong(at, whole, analytical, rtol, atol)}\n{_hint(whole, analytical)}"


def _first_wrong(at: JacobianLabel, expected: Array, found: Array, rtol: float, atol: float) -> str:
    wrong = np.argwhere(~np.isclose(found, expected, rtol, atol))
    row, column = (int(i) for i in wrong[0])
    want, got = expected[row, column], found[row, column]
    return (
        f"in {len(wrong)} of {expected.size} entries; the first is {at.entry(row, column)}: numerical {want:.6g}, "
        f"analytical {got:.6g}, which differ by {abs(want - got):.3g} where {atol + rtol * abs(want):.3g} is allowed"
    )


def _hint(expected: Array, found: Array) -> str:
    """Return a hint if the difference looks like a common mistake."""
    if np.isnan(found).any():
        return "The analytical Jacobian has NaNs."
    if not found.any():
        return (
            "The analytical Jacobian is zero throughout: no gradient arrived. Was the graph cut (detach, no_grad, "
            "once_differentiable, an intermediate kept outside of the graph), or is a gradient returned in the wrong "
            "place?"
        )
    if np.iscomplexobj(found) and np.allclose(found.conj(), expected, 1e-3, 1e-6):
        return (
            "The analytical Jacobian is the conjugate of the numerical one: of complex factors backward takes .conj()."
        )
    largest = np.unravel_index(np.argmax(abs(found)), found.shape)
    ratio = expected[largest] / found[largest]
    if np.allclose(found * ratio, expected, 1e-3, 1e-6):
        return f"The analytical Jacobian, multiplied by {ratio:.6g}, would be right."
    return ""


def not_constant(output: int, input: int, jacobian: Array) -> str:
    """Return the message that an output without gradient depends on an input."""
    return (
        f"Numerical gradient for output {output} with respect to input {input} expected to be zero, since no output "
        f"requires grad, but it is:\n{_shown(jacobian)}\nThe graph was cut on the way (detach, no_grad, NumPy)?"
    )


def dtype_differs(output: int, input: int, found: Any, wanted: Any) -> str:
    """Return the message that a gradient has another dtype than its input."""
    return (
        f"Gradient has dtype mismatch: output {output} gives input {input}, which is {wanted}, a gradient of {found}; "
        "convert it in backward"
    )


def not_repeatable(output: int, input: int, first: Array, again: Array, tolerance: float) -> str:
    """Return the message that a backward is not deterministic."""
    return (
        f"Backward is not reentrant, i.e. running backward of output {output} twice with the same input and gradient "
        f"gives input {input} different values; the tolerance for nondeterminism is {tolerance}:\n"
        f"first:\n{_shown(first)}\nagain:\n{_shown(again)}\n"
        "Does backward change what it saved, or draw random numbers? If it may differ by little, set nondet_tol"
    )


def not_linear(input: int, found: Array) -> str:
    """Return the message that a zero gradient gave a nonzero one."""
    return (
        f"backward not multiplied by grad_output: for gradients of zero, input {input} gets\n{_shown(found)}\n"
        "A backward is linear in the gradients that it is given"
    )


def _undefined(case: Sequence[int]) -> str:
    names = ", ".join(str(i) for i in case)
    return (
        f"the gradient of output {names} is undefined (None)"
        if len(case) == 1
        else (f"the gradients of outputs {names} are undefined (None)")
    )


def undefined_fails(case: Sequence[int], error: BaseException) -> str:
    """Return the message that backward failed on an undefined gradient."""
    return (
        f"Expected backward function to handle undefined output grads: where {_undefined(case)}, it raised "
        f"{type(error).__name__}: {error}. Let it take None for zeros, or leave ctx.set_materialize_grads at True; "
        "check_undefined_grad=False leaves this check out"
    )


def undefined_counts(case: Sequence[int], input: int, found: Array) -> str:
    """Return the message that an undefined gradient did not count as zero."""
    return (
        "Expected backward function to handle undefined output grads: all input grads are expected to be undefined or "
        f"zero when all output grads are undefined or zero, but where {_undefined(case)} and the others are zero, "
        f"input {input} gets\n{_shown(found)}\ncheck_undefined_grad=False leaves this check out"
    )


def batch_fails(what: str, error: BaseException) -> str:
    """Return the message that a derivative cannot be computed for a batch."""
    return f"{what}, got {type(error).__name__}: {error}"


def batch_differs(what: str, input: int, found: Array, expected: Array) -> str:
    """Return the message that a batch and its examples give different results."""
    return (
        f"For input {input}, {what}: a batch gives\n{_shown(found)}\nand its elements, one after the other,\n"
        f"{_shown(expected)}\nDoes a vmap rule or a backward mix the elements of a batch?"
    )
