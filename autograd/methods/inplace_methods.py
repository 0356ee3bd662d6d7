"""In-place tensor methods derived from catalogue functions by name: `x.erf_()` gives `x` the value of `erf(x)`.

In-place methods with checks or fills of their own are in `inplace_ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raygrad.errors import AutogradError

from .. import ops
from ..dispatch.argument_errors import as_method
from ..dispatch.spellings import taking_spellings
from ..mutation.inplace import in_place
from ..mutation.inplace_views import view_in_place
from ..mutation.overlap import check_apart

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

    Method = Callable[..., Tensor]
    MethodAlone = Callable[[], Tensor]
    MethodWith = Callable[[Any], Tensor]


class UnaryInPlace:
    """In-place methods by an op of the tensor alone."""

    ceil_: MethodAlone
    cos_: MethodAlone
    exp_: MethodAlone
    expm1_: MethodAlone
    floor_: MethodAlone
    log_: MethodAlone
    log1p_: MethodAlone
    neg_: MethodAlone
    reciprocal_: MethodAlone
    relu_: MethodAlone
    rsqrt_: MethodAlone
    sigmoid_: MethodAlone
    sign_: MethodAlone
    sin_: MethodAlone
    sqrt_: MethodAlone
    square_: MethodAlone
    tanh_: MethodAlone
    trunc_: MethodAlone


class BinaryInPlace:
    """In-place methods by an op of the tensor and another operand."""

    bitwise_and_: MethodWith
    bitwise_or_: MethodWith
    bitwise_xor_: MethodWith
    floor_divide_: MethodWith
    fmod_: MethodWith
    mul_: MethodWith
    pow_: MethodWith
    remainder_: MethodWith


class ElementwiseInPlace:
    """In-place methods by an elementwise op; an operand must not overlap the tensor partly."""

    absolute_: Method
    acos_: Method
    acosh_: Method
    addbmm_: Method
    addmm_: Method
    addmv_: Method
    addr_: Method
    arccos_: Method
    arccosh_: Method
    arcsin_: Method
    arcsinh_: Method
    arctan2_: Method
    arctan_: Method
    arctanh_: Method
    asin_: Method
    asinh_: Method
    atan2_: Method
    atan_: Method
    atanh_: Method
    baddbmm_: Method
    bitwise_left_shift_: Method
    bitwise_not_: Method
    bitwise_right_shift_: Method
    clamp_max_: Method
    clamp_min_: Method
    clip_: Method
    conj_physical_: Method
    copysign_: Method
    cosh_: Method
    cumprod_: Method
    cumsum_: Method
    deg2rad_: Method
    digamma_: Method
    divide_: Method
    erf_: Method
    erfc_: Method
    erfinv_: Method
    exp2_: Method
    fix_: Method
    frac_: Method
    gcd_: Method
    heaviside_: Method
    hypot_: Method
    i0_: Method
    igamma_: Method
    igammac_: Method
    lcm_: Method
    ldexp_: Method
    lgamma_: Method
    log10_: Method
    log2_: Method
    logical_and_: Method
    logical_not_: Method
    logical_or_: Method
    logical_xor_: Method
    logit_: Method
    multiply_: Method
    mvlgamma_: Method
    nan_to_num_: Method
    negative_: Method
    nextafter_: Method
    rad2deg_: Method
    renorm_: Method
    round_: Method
    sgn_: Method
    sinc_: Method
    sinh_: Method
    subtract_: Method
    tan_: Method
    tril_: Method
    triu_: Method
    true_divide_: Method
    xlogy_: Method


class SameDtypeInPlace:
    """In-place methods whose result must have the tensor's dtype already."""

    float_power_: Method


class ComparisonInPlace:
    """In-place comparisons, whose gradient is zero."""

    eq_: Method
    ge_: Method
    greater_: Method
    greater_equal_: Method
    gt_: Method
    le_: Method
    less_: Method
    less_equal_: Method
    lt_: Method
    ne_: Method
    not_equal_: Method


class ScatterInPlace:
    """In-place methods that move elements; an operand must share no memory with the tensor."""

    index_copy_: Method
    index_fill_: Method
    index_put_: Method
    index_reduce_: Method
    masked_scatter_: Method
    put_: Method
    scatter_reduce_: Method


class ViewInPlace:
    """Methods that give a tensor another shape of its memory."""

    as_strided_: Method
    squeeze_: Method
    swapaxes_: Method
    swapdims_: Method
    t_: Method
    transpose_: Method
    unsqueeze_: Method


def _tensors_of(arguments: tuple[Any, ...]) -> list[Any]:
    """Return the tensors among arguments, also those in a list or tuple."""
    found: list[Any] = []
    for argument in arguments:
        inner: Any = argument if type(argument) in (list, tuple) else (argument,)
        found.extend(one for one in inner if hasattr(one, "_data"))
    return found


def _alone(function: Any) -> Any:
    def change(self: Any) -> Any:
        return in_place(self, function)

    return change


def _with_other(function: Any) -> Any:
    def change(self: Any, other: Any) -> Any:
        return in_place(self, lambda old: function(old, other), other)

    change.__name__ = f"{function.__name__}_"
    return taking_spellings(change)


def _elementwise(function: Any) -> Any:
    def change(self: Any, *args: Any, **options: Any) -> Any:
        def compute(old: Any) -> Any:
            # a composed function needs the value before the change for each of its ops
            return function(old.clone() if old.requires_grad else old, *args, **options)

        return in_place(self, compute, *_tensors_of((*args, *options.values())))

    return change


def _of_same_dtype(function: Any) -> Any:
    name = function.__name__

    def change(self: Any, *args: Any, **options: Any) -> Any:
        def compute(old: Any) -> Any:
            out = function(old.clone() if old.requires_grad else old, *args, **options)
            if out.dtype != old.dtype:
                raise AutogradError(
                    f"the tensor given to {name}_ has dtype {old.dtype} but the operation's result requires dtype "
                    f"{out.dtype}"
                )
            return out

        return in_place(self, compute, *_tensors_of((*args, *options.values())))

    return change


def _compared(function: Any) -> Any:
    def change(self: Any, *args: Any, **options: Any) -> Any:
        def compute(old: Any) -> Any:
            out = ops.to_dtype(function(old, *args, **options), old.dtype)
            for one in (old, *operands):
                out = ops.add(out, ops.zeros_as(one)) if one.requires_grad else out
            return out

        operands = _tensors_of((*args, *options.values()))
        return in_place(self, compute, *operands)

    return change


def _scattered(function: Any) -> Any:
    def change(self: Any, *args: Any, **options: Any) -> Any:
        check_apart(self, *_tensors_of((*args, *options.values())))
        return in_place(self, lambda old: function(old, *args, **options))

    return change


def _viewed(function: Any) -> Any:
    def change(self: Any, *args: Any, **options: Any) -> Any:
        return view_in_place(self, lambda old: function(old, *args, **options))

    return change


def _attach() -> None:
    """Make the methods."""
    for methods, make in (
        (UnaryInPlace, _alone),
        (BinaryInPlace, _with_other),
        (ElementwiseInPlace, _elementwise),
        (SameDtypeInPlace, _of_same_dtype),
        (ComparisonInPlace, _compared),
        (ScatterInPlace, _scattered),
        (ViewInPlace, _viewed),
    ):
        for name in methods.__annotations__:
            change = make(as_method(getattr(ops, name[:-1]), name[:-1]))
            change.__name__ = name
            change.__qualname__ = f"{methods.__name__}.{name}"
            change.__doc__ = f"Take `{name[:-1]}` of the tensor in place; see the function."
            setattr(methods, name, change)


_attach()
