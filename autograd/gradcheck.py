"""The public functions `gradcheck` and `gradgradcheck`: their options, and which checks run in which order.

The checks themselves are in `check`: `backward_checks` for reverse mode, `mode_checks` for forward mode and vmap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import GradcheckError as GradcheckError
from raygrad.tracebacks import public

from .check import mode_checks as modes
from .check.backward_checks import RANDOM_SEED, GradientCheck
from .check.jacobians import CheckedOutputs, Run, as_tensor_like, as_tensors, differentiable
from .engine.engine import grad
from .tensor.tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


@public
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
    backward = (check_backward_ad, check_undefined_grad, check_grad_dtypes, check_batched_grad)
    arguments: tuple[Any, ...] = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    check = GradientCheck(func, arguments, eps, atol, rtol, nondet_tol, fast_mode)
    try:
        _run_checks(check, backward, (check_forward_ad, check_batched_forward_grad))
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _run_checks(check: GradientCheck, backward: tuple[bool, bool, bool, bool], forward: tuple[bool, bool]) -> None:
    """Run the chosen checks: of reverse mode, undefined gradients, dtypes and batches; of forward mode and batches."""
    check_backward_ad, check_undefined_grad, check_grad_dtypes, check_batched_grad = backward
    check_forward_ad, check_batched_forward_grad = forward
    assert check_forward_ad or check_backward_ad, (
        "Expected at least one of check_forward_ad or check_backward_ad to be True"
    )
    assert check_backward_ad or not check_batched_grad, (
        "Setting check_batched_grad=True requires check_backward_ad to be True"
    )
    assert check_forward_ad or not check_batched_forward_grad, (
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
    )
    check.inputs_fit()
    outputs = CheckedOutputs.of(check.func(*check.inputs))
    if not outputs.positions:
        check.constant()
        return
    if check_backward_ad:
        check.backward(check_grad_dtypes, check_undefined_grad)
    if check_forward_ad:
        modes.forward(check, outputs)
    if check_batched_forward_grad:
        modes.batched_forward(check, outputs)
    if check_backward_ad:
        if check_batched_grad:
            modes.batched(check)
        check.linear()
        if check_undefined_grad:
            check.undefined()


@public
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
    assert check_rev_over_rev or not check_undefined_grad, (
        "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
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
    return gradcheck(
        _gradient_function(func, arguments, given),
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


def _gradient_function(func: Run, arguments: tuple[Any, ...], given: tuple[Any, ...]) -> Run:
    """Return the function of arguments and of gradients of outputs that returns the gradients of the inputs."""
    wanted = [i for i, x in enumerate(arguments) if isinstance(x, Tensor) and x.requires_grad]
    seeds = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        own, incoming = list(args[: len(arguments)]), list(args[len(arguments) :])
        for values, places in ((own, wanted), (incoming, seeds)):
            for i in places:  # the checks of forward mode hand over duals, which do not require grad
                values[i] = values[i] if values[i].requires_grad else values[i].requires_grad_()
        outputs = differentiable(as_tensors(func(*own)))
        found = grad(outputs, [own[i] for i in wanted], incoming, create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradients


def _random_gradient(output: Tensor, gaps: bool) -> Tensor:
    """Return a random gradient of an output: a leaf that requires grad."""
    rng = np.random.default_rng(RANDOM_SEED)
    shape = (*output.shape, 2) if gaps else output.shape
    values = rng.uniform(-1, 1, shape)
    if output.dtype.kind == "c":
        values = values + 1j * rng.uniform(-1, 1, shape)
    values = np.asarray(values, output.dtype)
    return as_tensor_like(values[..., 0] if gaps else values, output).requires_grad_()
