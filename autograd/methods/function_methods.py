"""Tensor methods that are catalogue functions without a declared signature: a list of names.

The tensor is the first argument. Methods in more frequent use are declared with their signatures, in `op_methods` and
`layout_methods`; `bind` gives all of them their functions.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING

from .. import ops
from ..dispatch.argument_errors import as_method

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

    Method = Callable[..., Tensor]


class FunctionMethods:
    """Methods that are catalogue functions, by name."""

    absolute: Method
    addbmm: Method
    addmv: Method
    addr: Method
    adjoint: Method
    allclose: Method
    aminmax: Method
    angle: Method
    arccos: Method
    arccosh: Method
    arcsin: Method
    arcsinh: Method
    arctan2: Method
    arctan: Method
    arctanh: Method
    argwhere: Method
    as_strided: Method
    baddbmm: Method
    bernoulli: Method
    bincount: Method
    bitwise_left_shift: Method
    bitwise_right_shift: Method
    cholesky: Method
    cholesky_inverse: Method
    cholesky_solve: Method
    clip: Method
    conj_physical: Method
    copysign: Method
    corrcoef: Method
    count_nonzero: Method
    cov: Method
    cross: Method
    cummax: Method
    cummin: Method
    cumprod: Method
    deg2rad: Method
    det: Method
    diag_embed: Method
    diagflat: Method
    diagonal_scatter: Method
    diff: Method
    digamma: Method
    dist: Method
    divide: Method
    dsplit: Method
    erfc: Method
    erfinv: Method
    exp2: Method
    fix: Method
    fliplr: Method
    flipud: Method
    float_power: Method
    fmax: Method
    fmin: Method
    frac: Method
    frexp: Method
    gcd: Method
    geqrf: Method
    ger: Method
    greater: Method
    greater_equal: Method
    hardshrink: Method
    heaviside: Method
    histc: Method
    histogram: Method
    hsplit: Method
    i0: Method
    igamma: Method
    igammac: Method
    index_copy: Method
    index_fill: Method
    index_put: Method
    index_reduce: Method
    inner: Method
    inverse: Method
    is_nonzero: Method
    is_same_size: Method
    is_signed: Method
    isclose: Method
    isneginf: Method
    isposinf: Method
    isreal: Method
    istft: Method
    kron: Method
    kthvalue: Method
    lcm: Method
    ldexp: Method
    less: Method
    less_equal: Method
    lgamma: Method
    logaddexp2: Method
    logcumsumexp: Method
    logdet: Method
    logit: Method
    lu: Method
    lu_solve: Method
    masked_scatter: Method
    masked_select: Method
    matrix_exp: Method
    matrix_power: Method
    median: Method
    mode: Method
    moveaxis: Method
    msort: Method
    multinomial: Method
    multiply: Method
    mvlgamma: Method
    nan_to_num: Method
    nanmean: Method
    nanmedian: Method
    nanquantile: Method
    nansum: Method
    narrow_copy: Method
    negative: Method
    nextafter: Method
    nonzero_static: Method
    not_equal: Method
    ormqr: Method
    pinverse: Method
    positive: Method
    prelu: Method
    put: Method
    qr: Method
    quantile: Method
    rad2deg: Method
    renorm: Method
    resolve_conj: Method
    resolve_neg: Method
    rot90: Method
    scatter_reduce: Method
    select_scatter: Method
    signbit: Method
    sinc: Method
    slice_scatter: Method
    slogdet: Method
    split_with_sizes: Method
    stft: Method
    subtract: Method
    sum_to_size: Method
    svd: Method
    take: Method
    tensor_split: Method
    triangular_solve: Method
    true_divide: Method
    unfold: Method
    unique: Method
    unique_consecutive: Method
    vdot: Method
    vsplit: Method
    xlogy: Method


for _name in FunctionMethods.__annotations__:
    setattr(FunctionMethods, _name, as_method(getattr(ops, _name), _name))


def bind(*declared: type) -> None:
    """Replace each method of classes of declarations without a body by the function of its name."""
    for methods in declared:
        for name, method in list(vars(methods).items()):
            if isinstance(method, FunctionType):
                setattr(methods, name, as_method(getattr(ops, method.__name__), name))
