"""Special functions, running ones, order and statistics."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import math

import numpy as np

from raygrad.autograd.dispatch.dispatch import apply_op

from ..inputs import SHAPES, above_one, complex_, family, ints, mask, one, over, positive, real, unit

add = family("error_function")
for _shape in SHAPES:
    add(f"erf{list(_shape)}", one("erf"), real(*_shape))
    add(f"erfc{list(_shape)}", one("erfc"), real(*_shape))
    add(f"erfinv{list(_shape)}", one("erfinv"), unit(*_shape))
add("erfc-wide", one("erfc"), np.linspace(-9, 26, 36), order=1)
add("erfinv-wide", one("erfinv"), np.array([-0.999999, -0.97, 0.2, 0.9, 0.99999999]), order=0)
add("erfinv-ends", one("erfinv"), np.array([-1.0, 1.0, 2.0]), order=0)
add("erf-wide", one("erf"), np.linspace(-9, 9, 37), order=1)

add = family("special")
for _shape in SHAPES:
    add(f"lgamma{list(_shape)}", one("lgamma"), positive(*_shape))
    add(f"digamma{list(_shape)}", one("digamma"), positive(*_shape), oracle=False)  # torch's derivative has 9 digits
add("lgamma-wide", one("lgamma"), np.array([-2.5, -0.3, 0.01, 1.0, 2.0, 30.0, 500.0]), order=1)
add("lgamma-poles", one("lgamma"), np.array([0.0, -1.0, -2.0, math.inf]), order=0)
add("digamma-wide", lambda T, x: T.digamma(x.detach()), np.array([-2.5, -0.3, 0.01, 1.0, 30.0, 500.0]), order=0)
add("digamma-poles", one("digamma"), np.array([0.0, -0.0, -1.0, -2.0]), order=0)
for _n in (0, 1, 2, 3):
    add(f"polygamma{_n}", lambda T, x, n=_n: T.polygamma(n, x), positive(3), oracle=_n > 1)
add("mvlgamma", lambda T, x: T.mvlgamma(x, 3), above_one(3) + 1)

add = family("scans")
for _shape, _dim in [((), 0), ((4,), 0), ((2, 3), 0), ((2, 3), -1)]:
    add(f"cumprod{list(_shape)}{_dim}", over("cumprod", {"dim": _dim}), real(*_shape))
    add(f"logcumsumexp{list(_shape)}{_dim}", over("logcumsumexp", {"dim": _dim}), real(*_shape))
    for _name in ("cummax", "cummin"):
        add(f"{_name}{list(_shape)}{_dim}", over(_name, {"dim": _dim}), real(*_shape))
add("cumprod-zero", lambda T, x: T.cumprod(x, 0), np.array([2.0, 0.0, 3.0, 4.0]))
add("cumprod-zeros", lambda T, x: T.cumprod(x, 1), np.array([[2.0, 0.0, 3.0, 0.0], [0.5, 2.0, 3.0, 1.5]]))
add("cumprod-complex", lambda T, x: T.cumprod(x, 0), complex_(3))
add("cumprod-dtype", lambda T, x: T.cumprod(x, 0, dtype=T.float64), ints(4, 3), order=0)
add("logcumsumexp-wide", lambda T, x: T.logcumsumexp(x, 0), np.array([-800.0, 0.0, 750.0, -900.0, 760.0]), order=0)
add(
    "powers",
    lambda T, h, x, o: [apply_op(name, h, x, o, params=(1,)) for name in ("powers_ahead", "powers_behind")],
    real(2, 3),
    real(2, 3),
    real(2, 3),
    oracle=False,
)
add(
    "cummax-ties",
    lambda T, x: (*T.cummax(x, 0), *T.cummin(x, 0)),
    np.array([1.0, 3.0, 3.0, 1.0, math.nan, 2.0]),
    order=0,
)
add(
    "trapezoid",
    lambda T, y, x: (T.trapezoid(y), T.trapezoid(y, dx=0.5, dim=0), T.trapezoid(y, x), T.trapz(y, y * 2, dim=0)),
    real(2, 3),
    real(3),
)
add(
    "cumulative_trapezoid",
    lambda T, y, x: (T.cumulative_trapezoid(y), T.cumulative_trapezoid(y, dx=2.0, dim=0), T.cumulative_trapezoid(y, x)),
    real(2, 3),
    real(3),
)
add("diff", lambda T, x: (T.diff(x), T.diff(x, dim=0), T.diff(x, 2), T.diff(x, 9)), real(2, 4))
add("diff-between", lambda T, x, a, b: T.diff(x, dim=0, prepend=a, append=b), real(2, 3), real(1, 3), real(2, 3))
add("diff-bool", lambda T, m: T.diff(m), mask(5), order=0)
add(
    "cumulative",
    lambda T, x: (
        T.cumulative_sum(x, axis=0),
        T.cumulative_sum(x, axis=1, include_initial=True),
        T.cumulative_prod(x, axis=1),
        T.cumulative_prod(x, axis=0, include_initial=True),
    ),
    real(2, 3),
    oracle=False,
)

add = family("order_statistics")
add("aminmax", lambda T, x: (*T.aminmax(x), *T.aminmax(x, dim=0), *x.aminmax(dim=1, keepdim=True)), real(2, 3))
add("count_nonzero", lambda T, x: (T.count_nonzero(x), T.count_nonzero(x, 1)), ints(2, 3, 4), order=0)
add("msort", one("msort"), real(3, 2))
add("kthvalue", lambda T, x: (*T.kthvalue(x, 2), *T.kthvalue(x, 1, 0), *x.kthvalue(3, 1, keepdim=True)), real(2, 3))
add("kthvalue-scalar", lambda T, x: T.kthvalue(x, 1), real())
for _name in ("median", "nanmedian"):
    add(_name, one(_name), real(5))
    add(
        f"{_name}-even",
        lambda T, x, n=_name: (getattr(T, n)(x), *getattr(T, n)(x, 1), *getattr(x, n)(0, True)),
        real(2, 4),
    )
    add(f"{_name}-scalar", lambda T, x, n=_name: (getattr(T, n)(x), *getattr(T, n)(x, 0)), real())
    add(
        f"{_name}-nan",
        lambda T, x, n=_name: (getattr(T, n)(x), getattr(T, n)(x, 1)[0]),
        np.array([[1.0, math.nan, 3.0], [4.0, 2.0, 6.0]]),
        order=0,
    )
add("median-ties", one("median"), np.array([1.0, 2.0, 2.0, 2.0, 5.0]), order=0)
for _kind in ("linear", "lower", "higher", "midpoint", "nearest"):
    add(
        f"quantile-{_kind}",
        lambda T, x, k=_kind: (
            T.quantile(x, 0.3, interpolation=k),
            x.quantile(0.4, 1, interpolation=k),
            T.quantile(x, T.tensor([0.1, 0.8], dtype=x.dtype), 0, True, interpolation=k),
        ),
        real(3, 4),
    )
add(
    "quantile-nan",
    lambda T, x: (T.quantile(x, 0.5, 1), T.nanquantile(x, 0.5, 1), T.nanquantile(x, 0.4)),
    np.array([[1.0, math.nan, 3.0], [4.0, 2.0, 6.0]]),
    order=0,
)
add(
    "searchsorted",
    lambda T, a, v: (T.searchsorted(a, v), T.searchsorted(a, v, right=True), T.bucketize(v, a)),
    np.array([1, 3, 5]),
    ints(7, 2, 3),
    order=0,
)
add(
    "searchsorted-rows",
    lambda T, a, v: (T.searchsorted(a, v), T.searchsorted(a[0], 4)),
    np.array([[1, 3, 5], [2, 4, 6]]),
    ints(7, 2, 3),
    order=0,
)

add = family("statistics")
for _name in ("var_mean", "std_mean"):
    add(
        _name,
        lambda T, x, n=_name: (
            *getattr(T, n)(x),
            *getattr(T, n)(x, 1),
            *getattr(T, n)(x, (0, 1), correction=0, keepdim=True),
        ),
        real(2, 3),
    )
add("nansum", lambda T, x: (T.nansum(x), T.nansum(x, 1), T.nanmean(x), T.nanmean(x, 0, True)), real(2, 3))
add("nansum-nan", lambda T, x: (T.nansum(x), T.nanmean(x, 0)), np.array([[1.0, math.nan], [3.0, 4.0]]), order=0)
add("dist", lambda T, a, b: T.dist(a, b) + T.dist(a, b, 3), real(2, 3), real(3) + 5)
add("cov", lambda T, x: (T.cov(x), T.cov(x, correction=0), T.cov(x[0])), real(2, 4))
add(
    "cov-weights",
    lambda T, x, f, w: (T.cov(x, fweights=f), T.cov(x, fweights=f, aweights=w.detach())),
    real(2, 4),
    ints(3, 4) + 1,
    positive(4),
    order=0,
)
add("cov-complex", lambda T, x: T.cov(x), complex_(2, 3))
add("corrcoef", lambda T, x: (T.corrcoef(x), T.corrcoef(x[0])), real(2, 4))
