"""`out=` of public functions: the tensors to which results are written.

Functions of the package, `linalg`, `special` and `fft` take it, as PyTorch's do, unless they return views or Python
values. `spellings` comes here when it is given. The result is computed first and copied then, so that `out` may be an
operand, and what must not be written to is refused as in any other change in place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from raygrad.errors import AutogradError

from ..core.dtypes import as_dtype
from ..core.modes import no_grad, state
from ..core.pytree import flatten
from ..core.type_promotion import can_cast
from ..tensor.tensor import Tensor

WITHOUT: Final = frozenset(
    """
    adaptive_avg_pool1d adaptive_max_pool1d adjoint allclose alpha_dropout alpha_dropout_ argwhere as_strided
    atleast_1d atleast_2d atleast_3d avg_pool1d batch_norm bilinear binomial broadcast_tensors broadcast_to
    cartesian_prod cdist celu celu_ channel_shuffle chunk combinations conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d corrcoef cosine_similarity cov cumulative_trapezoid detach_copy diagflat
    diagonal dropout dropout_ dsplit embedding equal feature_alpha_dropout feature_alpha_dropout_ fftshift flatten
    fliplr flipud get_device gradient group_norm histogramdd hsplit ifftshift imag instance_norm is_complex is_conj
    is_floating_point is_inference is_neg is_nonzero is_same_size is_signed isclose isfinite isreal istft layer_norm
    logdet matrix_exp max_pool1d max_pool1d_with_indices max_pool2d max_pool3d meshgrid moveaxis movedim narrow
    numel pairwise_distance pca_lowrank pdist permute pinverse pixel_shuffle pixel_unshuffle poisson positive prelu
    ravel real reshape resolve_conj resolve_neg rms_norm rrelu rrelu_ select selu selu_ split split_with_sizes
    squeeze stft svd_lowrank swapaxes swapdims t tensor_split threshold_ tile transpose trapezoid trapz unbind
    unflatten unique unique_consecutive unravel_index unsqueeze vander view_as_complex view_as_real vsplit
    """.split()
)
"""Functions that do not take it."""

_SIZES: Final = 10
"""The most extents of a shape that a warning shows."""


def takes_out(function: Callable[..., Any]) -> bool:
    """Tell whether a public function takes `out=`."""
    return function.__module__ != "raygrad.nn.functional" and function.__name__ not in WITHOUT


def write_to(name: str, out: Any, given: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
    """Compute results, and write them to the tensors of `out`; return those, in the class of tuple of the results.

    Args:
        name: the function's, for messages.
        out: a tensor, or a tuple or list of one per result.
        given: the function's arguments.
        compute: calls it without `out`.

    Raises:
        TypeError: `out` holds something else, or another number of tensors.
        RuntimeError: an argument requires grad while gradients are recorded; a result's dtype cannot be cast to that of
            its tensor; one that is a view has another shape, or must not be changed in place.
    """
    if out is None:
        return compute()
    several = isinstance(out, list | tuple)
    targets = cast("Sequence[Any]", out) if several else (out,)
    for target in targets:
        if not isinstance(target, Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}")
    leaves, _ = flatten(([*given.values()], [*targets]))
    if state.here.grad and any([isinstance(one, Tensor) and one._requires_grad for one in leaves]):
        raise AutogradError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    with no_grad():
        results = compute()
        parts: Sequence[Any] = cast("Sequence[Any]", results) if isinstance(results, tuple) else (results,)
        if several is not isinstance(results, tuple) or len(parts) != len(targets):
            wanted = f"a tuple of {len(parts)} Tensors" if isinstance(results, tuple) else "Tensor"
            raise TypeError(f"{name}(): argument 'out' must be {wanted}, not {_described(out)}")
        for target, result in zip(targets, parts, strict=True):
            _check_dtype(result, target)
        for target, result in zip(targets, parts, strict=True):
            _write(result, target)
    if not isinstance(results, tuple):
        return out
    made: Any = getattr(cast("Any", results), "_make", tuple)  # of a named tuple
    return made(targets)


def fill(
    factory: Callable[..., Any], args: Sequence[Any], out: Any, dtype: Any, device: Any, requires_grad: bool = False
) -> Any:
    """Write to `out` what a factory makes of its arguments, in the dtype of `out` unless one is given; it requires grad
    from then on, if it is to.

    Raises:
        TypeError: `out` is no tensor.
        RuntimeError: the dtype that is given is another one; and as `write_to` does.
    """
    if isinstance(out, Tensor):
        if dtype is not None and as_dtype(dtype) != out.dtype:
            raise AutogradError(f"dtype {as_dtype(dtype)} does not match dtype of out parameter ({out.dtype})")
        dtype = out.dtype
    write_to(factory.__name__, out, {}, lambda: factory(*args, dtype=dtype, device=device))
    return out.requires_grad_() if requires_grad else out


def _described(out: Any) -> str:
    if isinstance(out, list | tuple):
        return f"a {'list' if isinstance(out, list) else 'tuple'} of {len(cast('Sequence[Any]', out))}"
    return type(out).__name__


def _check_dtype(result: Tensor, target: Tensor) -> None:
    if not can_cast(result.dtype, target.dtype):
        raise AutogradError(f"result type {result.dtype} can't be cast to the desired output type {target.dtype}")


def _write(result: Tensor, target: Any) -> None:
    """Write a result to a tensor, which first gets its shape if it has another one."""
    if target.shape == result.shape:
        target.copy_(result)
        return
    shown, wanted = list(target.shape[:_SIZES]), list(result.shape[:_SIZES])
    if target._view is not None and target._base is not None:
        raise AutogradError(
            f"the output has shape {shown}, where {wanted} is required, and is a view, which cannot be resized: give a "
            "tensor of that shape, or one of its own"
        )
    if target.numel():
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {shown}, which does not match the "
            f"required output shape {wanted}. Give a tensor of that shape, or an empty one",
            UserWarning,
            stacklevel=5,
        )
    target.data = result if result.dtype == target.dtype else result.to(target.dtype)
