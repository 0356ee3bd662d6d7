"""Autocast policies: which functions cast their operands, and to what; and the wrappers that apply the casts (LG-14).

The lists are those of PyTorch's CPU. Users get each listed function through `with_autocast`; the functions themselves,
as derivatives, other functions and workers call them, cast nothing. A function that is made of others and stands on no
list calls the wrapped ones where PyTorch's does. The state of the regions and the casts are in `autocast`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core import dtypes
from ..core.modes import state
from ..registry.codegen import compile_wrapper
from .autocast import REGIONS, Casting, cast_to, widest_dtype

Function = Callable[..., Any]
Policy = Callable[[Casting, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


def _over(
    cast: Callable[[Any], Any], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with `cast` applied to each, and to each in a list or tuple."""

    def one(value: Any) -> Any:
        return type(value)([cast(item) for item in value]) if type(value) in (list, tuple) else cast(value)

    return tuple([one(arg) for arg in args]), {name: one(value) for name, value in named.items()}


def _lower(casting: Casting, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return _over(lambda operand: cast_to(casting, operand, casting.dtype), args, named)


def _single(casting: Casting, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return _over(lambda operand: cast_to(casting, operand, dtypes.float32), args, named)


def _widest(casting: Casting, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    operands: list[Any] = []
    _over(operands.append, args, named)
    dtype = widest_dtype(casting, operands)
    return _over(lambda operand: cast_to(casting, operand, dtype), args, named)


def _padding(casting: Casting, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Borders that mirror or repeat are on PyTorch's list, for the dimensions for which it had them first."""
    _, widths, mode, *_ = args
    listed = mode == "replicate" or (mode == "reflect" and len(widths) <= 4)
    return _single(casting, args, named) if listed else (args, named)


POLICIES: Mapping[str, Policy] = {
    **dict.fromkeys(
        """
        addbmm addmm baddbmm bmm contract conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear
        matmul mm prelu scaled_dot_product_attention vecdot
        """.split(),
        _lower,
    ),
    **dict.fromkeys(
        """
        adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits
        cdist cholesky cholesky_ex cholesky_factor cholesky_solve cond cosine_embedding_loss cross_entropy eig
        eigh eigvals eigvalsh fft fft2 fftn geqrf grid_sample hfft hfft2 hfftn hinge_embedding_loss
        householder_product huber_loss ifft ifft2 ifftn ihfft ihfft2 ihfftn inv inv_ex irfft irfft2 irfftn istft
        kl_div l1_loss lstsq margin_ranking_loss matrix_rank max_pool3d max_unpool1d max_unpool2d max_unpool3d
        mse_loss multi_margin_loss multilabel_margin_loss nanquantile nll_loss ormqr pinv pinverse
        poisson_nll_loss polar prod qr qr_factors quantile rfft rfft2 rfftn smooth_l1_loss soft_margin_loss
        solve stft svd svd_factors svdvals tensorinv tensorsolve trace triplet_margin_loss view_as_complex
        """.split(),
        _single,
    ),
    **dict.fromkeys("cat index_copy stack".split(), _widest),
    "bilinear": lambda casting, args, named: (args, named),  # made of einsum here, of a kernel of its own there
    "pad": _padding,
}
"""By the function's name."""

_governed: dict[str, Function] = {}


def with_autocast(function: Function) -> Function:
    """Return what is offered in the place of a function: one that casts its operands, if it is on a list.

    Raises:
        ValueError: there is another function of this name on a list.
    """
    policy = POLICIES.get(function.__name__)
    if policy is None:
        return function
    made: Any = _governed.get(function.__name__)
    if made is None:
        made = _governed[function.__name__] = _asking(function, policy)
    elif made.__wrapped__ is not function:
        raise ValueError(f"two functions called '{function.__name__}' are to be cast; the lists name functions")
    return made


def __getattr__(name: str) -> Any:
    """Return a wrapped function: it is pickled by this module and its name."""
    if name in _governed:
        return _governed[name]
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _asking(function: Function, policy: Policy) -> Function:
    """Return a function with the signature of another that calls it, with operands cast if a region is open."""
    return compile_wrapper(
        function,
        "    if _regions:\n"
        "        return _cast_and_call(_function, _policy, ({args}), {{{kwargs}}})\n"
        "    return _function({plain})\n",
        {"_regions": REGIONS, "_cast_and_call": _cast_and_call, "_policy": policy},
        __name__,
    )


def _cast_and_call(function: Function, policy: Policy, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call a function with operands cast as the thread's region says; what it is made of casts nothing then."""
    here = state.here
    casting = here.casting
    if casting is None or not casting.enabled:
        return function(*args, **named)
    args, named = policy(casting, args, named)
    here.casting = None
    try:
        return function(*args, **named)
    finally:
        here.casting = casting
