"""The reverse-mode checks of `gradcheck`: values against finite differences, determinism, linearity, undefined
gradients.

`GradientCheck` holds one function at one point with the tolerances; each of its methods raises what it finds.
`jacobians` computes the Jacobians, `check_report` words the failures.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, GradcheckError

from ..devices.serving import to_host
from ..dispatch.device_dispatch import zeros_on
from ..engine.engine import grad
from ..functions.function import Function
from ..tensor.tensor import Tensor
from . import check_report as report, jacobians
from .jacobians import Array, CheckedOutputs, Run, as_tensors, differentiable

RANDOM_SEED = 17
"""The seed of a new generator for each check: checks are repeatable, and do not draw from the program's generator."""


class UndefinedGrad(Function):
    """The identity, whose backward returns an undefined gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> None:
        return None


@dataclass(frozen=True)
class GradientCheck:
    """The reverse-mode checks of one function at one point, with their tolerances."""

    func: Run
    inputs: tuple[Any, ...]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    fast: bool

    # ---- inputs and outputs ------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> list[int]:
        """The positions of the inputs that require grad."""
        return [i for i, x in enumerate(self.inputs) if isinstance(x, Tensor) and x.requires_grad]

    def outputs(self) -> tuple[Tensor, ...]:
        """Run the function and return the outputs that require grad."""
        return differentiable(as_tensors(self.func(*self.inputs)))

    def inputs_fit(self) -> None:
        """Check that an input requires grad, and that its elements can be moved one by one (GC-04)."""
        for index in self.wanted:
            tensor = self.inputs[index]
            if tensor.dtype not in (np.float64, np.complex128):
                warnings.warn(
                    f"Input #{index} requires gradient and is not a double precision floating point or complex: it is "
                    f"{tensor.dtype}, in which differences are too coarse to compare with",
                    UserWarning,
                    stacklevel=4,
                )
            steps = tensor._read().strides
            if tensor.numel() and any(
                not step and extent > 1 for step, extent in zip(steps, tensor.shape, strict=True)
            ):
                raise AutogradError(
                    f"The {index}th input has a dimension with stride 0. gradcheck moves elements one by one, and "
                    "those along such a dimension are all one; give it input.contiguous()"
                )
        if not self.wanted:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of them has "
                "requires_grad=True"
            )

    def constant(self) -> None:
        """Check that a function without differentiable outputs does not change with its inputs (GC-09)."""
        outputs = CheckedOutputs.of(self.func(*self.inputs), every=True)
        if not outputs.positions:
            return
        for index in self.wanted:
            for place, found in enumerate(jacobians.numerical(self.func, self.inputs, outputs, index, self.eps)):
                for jacobian in found.values():
                    if jacobian.any():
                        raise GradcheckError(report.not_constant(outputs.positions[place], index, jacobian), "graph")

    # ---- values of gradients -----------------------------------------------------------------------------------------

    def backward(self, check_dtypes: bool, check_undefined: bool) -> None:
        """Compare backward with finite differences, and with a second run of itself (GC-03, GC-05)."""
        result = self.func(*self.inputs)
        outputs = CheckedOutputs.of(result)
        picked = outputs.picked(result)
        for place, output in enumerate(picked):
            try:
                self._backward_of(outputs, place, output, check_dtypes)
            except GradcheckError:
                raise
            except Exception as error:
                others = tuple([i for i in range(len(picked)) if i != place])
                if check_undefined and others and self._runs_on_zeros():  # it is the others' gradients that it misses
                    raise GradcheckError(report.undefined_fails(others, error), "undefined gradients") from error
                raise

    def _backward_of(self, outputs: CheckedOutputs, place: int, output: Tensor, check_dtypes: bool) -> None:
        tensors = [self.inputs[i] for i in self.wanted]
        if check_dtypes:
            self._dtypes(place, output, tensors)
        compare = self._compare_fast if self.fast else self._compare_slowly
        for name in jacobians.parts_of(output.dtype):
            compare(outputs, place, output, tensors, name)

    def _runs_on_zeros(self) -> bool:
        outputs = self.outputs()
        try:
            self._gradients(outputs, [zeros_on(o.device, o.shape, o.dtype) for o in outputs])
        except Exception:
            return False
        return True

    def _dtypes(self, place: int, output: Tensor, tensors: Sequence[Tensor]) -> None:
        seed = zeros_on(output.device, output.shape, output.dtype) + 1
        found = grad(output, tensors, seed, retain_graph=True, allow_unused=True)
        for index, tensor, gradient in zip(self.wanted, tensors, found, strict=True):
            if gradient is not None and gradient.dtype != tensor.dtype:
                raise GradcheckError(report.dtype_differs(place, index, gradient.dtype, tensor.dtype), "dtype")

    def _compare_slowly(
        self, outputs: CheckedOutputs, place: int, output: Tensor, tensors: Sequence[Tensor], name: str
    ) -> None:
        first = jacobians.analytical(output, tensors, name)
        self._repeats(place, first, jacobians.analytical(output, tensors, name))
        for index, found in zip(self.wanted, first, strict=True):
            expected = jacobians.numerical(self.func, self.inputs, outputs, index, self.eps)[place][name]
            if not np.allclose(found, expected, self.rtol, self.atol):
                at = self.place(outputs, place, index, name)
                raise GradcheckError(report.mismatch(at, expected, found, self.rtol, self.atol), "formula")

    def _compare_fast(
        self, outputs: CheckedOutputs, place: int, output: Tensor, tensors: Sequence[Tensor], name: str
    ) -> None:
        """Compare `v @ J @ u` for random u and v; the whole Jacobian is not computed."""
        rng = np.random.default_rng(RANDOM_SEED)
        weights = unit(rng, output.shape)
        seed = np.asarray(weights * jacobians.SEEDS[name], output.dtype)
        first = [g[0] for g in jacobians.products(output, tensors, [seed])]
        self._repeats(place, first, [g[0] for g in jacobians.products(output, tensors, [seed])])
        for index, tensor, found in zip(self.wanted, tensors, first, strict=True):
            along = unit(rng, tensor.shape)
            moves = jacobians.directions_of(tensor.dtype)
            steps = [np.asarray(along * move, tensor.dtype) for move in moves]
            slopes = jacobians.differences(self.func, self.inputs, outputs, index, steps, self.eps)
            expected = sum(
                move * float((jacobians.part(slope[place], name) * weights).sum())
                for move, slope in zip(moves, slopes, strict=True)
            )
            self._fits(outputs, place, index, name, expected, (found * along).sum(), weights.sum() * along.sum())

    def _fits(
        self, outputs: CheckedOutputs, place: int, index: int, name: str, expected: Any, found: Any, spread: float
    ) -> None:
        """Compare two numbers, within the sum of the tolerances of the Jacobian entries that they combine."""
        if np.allclose(found, expected, self.rtol, self.atol * max(spread, 1.0)):
            return
        result = self.func(*self.inputs)
        output = outputs.picked(result)[place]
        tensor = self.inputs[index]
        (whole,) = jacobians.analytical(output, [tensor], name)
        slow = jacobians.numerical(self.func, self.inputs, outputs, index, self.eps)[place][name]
        at = self.place(outputs, place, index, name)
        text = report.fast_mismatch(at, expected, found, slow, whole, self.rtol, self.atol)
        raise GradcheckError(text, "formula")

    def place(
        self, outputs: CheckedOutputs, place: int, index: int, name: str, forward: bool = False
    ) -> report.JacobianLabel:
        """Name the Jacobian of one part of an output by an input."""
        position, tensor = outputs.positions[place], self.inputs[index]
        return report.JacobianLabel(
            position, index, name, outputs.specs[position][0], tensor.shape, tensor.dtype, forward=forward
        )

    def _repeats(self, place: int, first: Sequence[Array], again: Sequence[Array]) -> None:
        for index, one, other in zip(self.wanted, first, again, strict=True):
            if not np.allclose(one, other, 0.0, self.nondet_tol, equal_nan=True):
                raise GradcheckError(report.not_repeatable(place, index, one, other, self.nondet_tol), "determinism")

    # ---- linearity and undefined gradients ---------------------------------------------------------------------------

    def linear(self) -> None:
        """Check that zero gradients give zero gradients (GC-06)."""
        outputs = self.outputs()
        zeros = [zeros_on(output.device, output.shape, output.dtype) for output in outputs]
        for index, found in zip(self.wanted, self._gradients(outputs, zeros), strict=True):
            if found is not None and found.any():
                raise GradcheckError(report.not_linear(index, found), "linearity")

    def undefined(self) -> None:
        """Check that undefined gradients count as zeros: for all outputs together, and for each (GC-07)."""
        count = len(self.outputs())
        cases = [tuple(range(count)), *([(i,) for i in range(count)] if count > 1 else [])]
        for case in cases:
            outputs = [UndefinedGrad.apply(o) if i in case else o for i, o in enumerate(self.outputs())]
            zeros = [zeros_on(output.device, output.shape, output.dtype) for output in outputs]
            try:
                gradients = self._gradients(outputs, zeros)
            except Exception as error:
                raise GradcheckError(report.undefined_fails(case, error), "undefined gradients") from error
            for index, found in zip(self.wanted, gradients, strict=True):
                if found is not None and found.any():
                    raise GradcheckError(report.undefined_counts(case, index, found), "undefined gradients")

    def _gradients(self, outputs: Sequence[Tensor], seeds: Sequence[Tensor]) -> list[Array | None]:
        tensors = [self.inputs[i] for i in self.wanted]
        return [None if g is None else to_host(g._read()) for g in grad(outputs, tensors, seeds, allow_unused=True)]


def unit(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return random weights, all positive, of length one."""
    values = np.asarray(rng.uniform(0.2, 1.0, shape))
    length = float(np.sqrt((values * values).sum()))
    return values / length if length else values
