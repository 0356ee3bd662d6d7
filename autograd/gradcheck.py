"""Checking derivatives that a program defines: against differences, and for what else backward has to keep.

Rules of this file: which checks there are, in which order, and what is required of each; the Jacobians come from
`jacobians`, the words of a failure from `gradcheck_report`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raygrad.errors import AutogradError
from raygrad.errors import GradcheckError as GradcheckError

from . import gradcheck_report as report
from . import jacobians
from .engine import grad
from .function import Function
from .jacobians import Array, Outputs, Run, as_tensors, differentiable
from .tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


def gradcheck(
    func: Run,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check the gradients of `func` at `inputs` against central differences, and return True.

    Args:
        func: takes the inputs, returns a tensor or a sequence of them; those that require grad are checked.
        inputs: a tensor or a sequence of arguments; the tensors among them that require grad are differentiated.
        eps: how far an element of an input is moved.
        atol, rtol: how far from the difference a gradient may be.
        raise_exception: raise what was found; else return False for it.
        nondet_tol: how far apart two runs of the same backward may be.
        check_undefined_grad: check that backward takes gradients that never arrived for zeros.
        check_grad_dtypes: check that each gradient has the dtype of its input.
        check_batched_grad: check backward under `vmap`.
        check_batched_forward_grad: check forward mode under `vmap`.
        check_forward_ad, check_backward_ad: which modes to check.
        fast_mode: compare one random combination of each Jacobian's entries, in place of all of them.
        masked: how unspecified elements of sparse tensors count; tensors here have none, so each value means the same.

    Raises:
        GradcheckError: a check failed; the message says which and where, `kind` in a word.
        ValueError: no input requires grad.
        RuntimeError: an input has a dimension of stride 0: its elements cannot be moved one by one.
        AssertionError: neither mode is to be checked, or the outputs' shapes or dtypes depend on the inputs' values.
    """
    assert check_forward_ad or check_backward_ad, (
        "Expected at least one of check_forward_ad or check_backward_ad to be True"
    )
    assert check_backward_ad or not check_batched_grad, (
        "Setting check_batched_grad=True requires check_backward_ad to be True"
    )
    assert check_forward_ad or not check_batched_forward_grad, (
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
    )
    if check_forward_ad or check_batched_grad or check_batched_forward_grad:
        raise NotImplementedError("gradcheck: forward mode and batched gradients cannot be checked yet; leave them out")
    arguments: tuple[Any, ...] = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    check = _Check(func, arguments, eps, atol, rtol, nondet_tol, fast_mode)
    try:
        check.inputs_fit()
        outputs = Outputs.of(func(*arguments))
        if not outputs.positions:
            check.constant()
            return True
        if check_backward_ad:
            check.backward(check_grad_dtypes, check_undefined_grad)
            check.linear()
            if check_undefined_grad:
                check.undefined()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Run,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool | None = False,
) -> bool:
    """Check the gradients of the gradients of `func`, by its inputs and by the gradients that backward is given.

    Args:
        grad_outputs: the gradients of the outputs that require grad; random ones by default.
        gen_non_contig_grad_outputs: make the random ones with gaps in memory.
        check_fwd_over_rev, check_rev_over_rev: by forward mode, by a backward of the backward.
        func, inputs and the others: see `gradcheck`.

    Raises:
        GradcheckError: a check failed.
        ValueError, RuntimeError, AssertionError: as `gradcheck`.
    """
    assert check_fwd_over_rev or check_rev_over_rev, (
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
    )
    assert check_rev_over_rev or not check_batched_grad, (
        "Setting check_batched_grad=True requires check_rev_over_rev to be True"
    )
    arguments: tuple[Any, ...] = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    given: tuple[Any, ...]
    if grad_outputs is None:
        made = differentiable(as_tensors(func(*arguments)))
        given = tuple([_random_gradient(output, gen_non_contig_grad_outputs) for output in made])
    else:
        given = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    wanted = [i for i, x in enumerate(arguments) if isinstance(x, Tensor) and x.requires_grad]
    seeds = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        own, incoming = list(args[: len(arguments)]), list(args[len(arguments) :])
        for i in wanted:  # the checks of forward mode hand over duals, which do not require grad
            own[i] = own[i] if own[i].requires_grad else own[i].requires_grad_()
        for i in seeds:
            incoming[i] = incoming[i] if incoming[i].requires_grad else incoming[i].requires_grad_()
        outputs = differentiable(as_tensors(func(*own)))
        found = grad(outputs, [own[i] for i in wanted], incoming, create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradcheck(
        gradients,
        (*arguments, *given),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


_RANDOM_SEED = 17
"""Of a generator made anew for each check: a check is repeatable, and takes nothing from the program's numbers."""


def _random_gradient(output: Tensor, gaps: bool) -> Tensor:
    """Return a random gradient of an output: a leaf that requires grad."""
    rng = np.random.default_rng(_RANDOM_SEED)
    shape = (*output.shape, 2) if gaps else output.shape
    values = rng.uniform(-1, 1, shape)
    if output.dtype.kind == "c":
        values = values + 1j * rng.uniform(-1, 1, shape)
    values = np.asarray(values, output.dtype)
    return Tensor.made(values[..., 0] if gaps else values).requires_grad_()


class Undefined(Function):
    """Hands its input on, and keeps its gradient to itself."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> None:
        return None


@dataclass(frozen=True)
class _Check:
    """One function at one point, with the tolerances."""

    func: Run
    inputs: tuple[Any, ...]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    fast: bool

    # ---- what is given -----------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> list[int]:
        """The positions of the inputs that require grad."""
        return [i for i, x in enumerate(self.inputs) if isinstance(x, Tensor) and x.requires_grad]

    def outputs(self) -> tuple[Tensor, ...]:
        """Run the function and return the outputs that require grad."""
        return differentiable(as_tensors(self.func(*self.inputs)))

    def inputs_fit(self) -> None:
        """Check that there is something to differentiate, and that it can be moved (GC-04)."""
        for index in self.wanted:
            tensor = self.inputs[index]
            if tensor.dtype not in (np.float64, np.complex128):
                warnings.warn(
                    f"Input #{index} requires gradient and is not a double precision floating point or complex: it is "
                    f"{tensor.dtype}, in which differences are too coarse to compare with",
                    UserWarning,
                    stacklevel=3,
                )
            steps = tensor.read().strides
            if any(not step and extent > 1 for step, extent in zip(steps, tensor.shape, strict=True)):
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
        outputs = Outputs.of(self.func(*self.inputs), every=True)
        if not outputs.positions:
            return
        for index in self.wanted:
            for place, found in enumerate(jacobians.numerical(self.func, self.inputs, outputs, index, self.eps)):
                for jacobian in found.values():
                    if jacobian.any():
                        raise GradcheckError(report.not_constant(outputs.positions[place], index, jacobian), "graph")

    # ---- the formula -------------------------------------------------------------------------------------------------

    def backward(self, check_dtypes: bool, check_undefined: bool) -> None:
        """Compare backward with differences, and with itself run again (GC-03, GC-05)."""
        result = self.func(*self.inputs)
        outputs = Outputs.of(result)
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

    def _backward_of(self, outputs: Outputs, place: int, output: Tensor, check_dtypes: bool) -> None:
        tensors = [self.inputs[i] for i in self.wanted]
        if check_dtypes:
            self._dtypes(place, output, tensors)
        compare = self._compare_fast if self.fast else self._compare_slowly
        for name in jacobians.parts_of(output.dtype):
            compare(outputs, place, output, tensors, name)

    def _runs_on_zeros(self) -> bool:
        outputs = self.outputs()
        try:
            self._gradients(outputs, [Tensor.made(np.zeros(o.shape, o.dtype)) for o in outputs])
        except Exception:
            return False
        return True

    def _dtypes(self, place: int, output: Tensor, tensors: Sequence[Tensor]) -> None:
        seed = Tensor.made(np.ones(output.shape, output.dtype))
        found = grad(output, tensors, seed, retain_graph=True, allow_unused=True)
        for index, tensor, gradient in zip(self.wanted, tensors, found, strict=True):
            if gradient is not None and gradient.dtype != tensor.dtype:
                raise GradcheckError(report.dtype_differs(place, index, gradient.dtype, tensor.dtype), "dtype")

    def _compare_slowly(
        self, outputs: Outputs, place: int, output: Tensor, tensors: Sequence[Tensor], name: str
    ) -> None:
        first = jacobians.analytical(output, tensors, name)
        self._repeats(place, first, jacobians.analytical(output, tensors, name))
        for index, found in zip(self.wanted, first, strict=True):
            expected = jacobians.numerical(self.func, self.inputs, outputs, index, self.eps)[place][name]
            if not np.allclose(found, expected, self.rtol, self.atol):
                at = self._place(outputs, place, index, name)
                raise GradcheckError(report.mismatch(at, expected, found, self.rtol, self.atol), "formula")

    def _compare_fast(self, outputs: Outputs, place: int, output: Tensor, tensors: Sequence[Tensor], name: str) -> None:
        """Compare `v @ J @ u` for random u and v: of the Jacobian no more than that is computed."""
        rng = np.random.default_rng(_RANDOM_SEED)
        weights = _unit(rng, output.shape)
        seed = np.asarray(weights * jacobians.SEEDS[name], output.dtype)
        first = [g[0] for g in jacobians.products(output, tensors, [seed])]
        self._repeats(place, first, [g[0] for g in jacobians.products(output, tensors, [seed])])
        for index, tensor, found in zip(self.wanted, tensors, first, strict=True):
            along = _unit(rng, tensor.shape)
            moves = jacobians.directions_of(tensor.dtype)
            steps = [np.asarray(along * move, tensor.dtype) for move in moves]
            slopes = jacobians.differences(self.func, self.inputs, outputs, index, steps, self.eps)
            expected = sum(
                move * float((jacobians.part(slope[place], name) * weights).sum())
                for move, slope in zip(moves, slopes, strict=True)
            )
            self._fits(outputs, place, index, name, expected, (found * along).sum(), weights.sum() * along.sum())

    def _fits(
        self, outputs: Outputs, place: int, index: int, name: str, expected: Any, found: Any, spread: float
    ) -> None:
        """Compare two numbers, allowing what each entry of the Jacobians that they stand for may differ by."""
        if np.allclose(found, expected, self.rtol, self.atol * max(spread, 1.0)):
            return
        result = self.func(*self.inputs)
        output = outputs.picked(result)[place]
        tensor = self.inputs[index]
        (whole,) = jacobians.analytical(output, [tensor], name)
        slow = jacobians.numerical(self.func, self.inputs, outputs, index, self.eps)[place][name]
        at = self._place(outputs, place, index, name)
        text = report.fast_mismatch(at, expected, found, slow, whole, self.rtol, self.atol)
        raise GradcheckError(text, "formula")

    def _place(self, outputs: Outputs, place: int, index: int, name: str, forward: bool = False) -> report.Place:
        position, tensor = outputs.positions[place], self.inputs[index]
        return report.Place(
            position, index, name, outputs.specs[position][0], tensor.shape, tensor.dtype, forward=forward
        )

    def _repeats(self, place: int, first: Sequence[Array], again: Sequence[Array]) -> None:
        for index, one, other in zip(self.wanted, first, again, strict=True):
            if not np.allclose(one, other, 0.0, self.nondet_tol, equal_nan=True):
                raise GradcheckError(report.not_repeatable(place, index, one, other, self.nondet_tol), "determinism")

    # ---- what else backward has to keep ------------------------------------------------------------------------------

    def linear(self) -> None:
        """Check that gradients of zero give gradients of zero (GC-06)."""
        outputs = self.outputs()
        zeros = [Tensor.made(np.zeros(output.shape, output.dtype)) for output in outputs]
        for index, found in zip(self.wanted, self._gradients(outputs, zeros), strict=True):
            if found is not None and found.any():
                raise GradcheckError(report.not_linear(index, found), "linearity")

    def undefined(self) -> None:
        """Check that gradients that never arrive count as zeros: of all outputs together, and of each (GC-07)."""
        count = len(self.outputs())
        cases = [tuple(range(count)), *([(i,) for i in range(count)] if count > 1 else [])]
        for case in cases:
            outputs = [Undefined.apply(o) if i in case else o for i, o in enumerate(self.outputs())]
            zeros = [Tensor.made(np.zeros(output.shape, output.dtype)) for output in outputs]
            try:
                gradients = self._gradients(outputs, zeros)
            except Exception as error:
                raise GradcheckError(report.undefined_fails(case, error), "undefined gradients") from error
            for index, found in zip(self.wanted, gradients, strict=True):
                if found is not None and found.any():
                    raise GradcheckError(report.undefined_counts(case, index, found), "undefined gradients")

    def _gradients(self, outputs: Sequence[Tensor], seeds: Sequence[Tensor]) -> list[Array | None]:
        tensors = [self.inputs[i] for i in self.wanted]
        return [None if g is None else g.read() for g in grad(outputs, tensors, seeds, allow_unused=True)]


def _unit(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return random weights, all positive, of length one."""
    values = np.asarray(rng.uniform(0.2, 1.0, shape))
    length = float(np.sqrt((values * values).sum()))
    return values / length if length else values
