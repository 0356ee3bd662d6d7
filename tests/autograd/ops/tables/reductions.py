"""Reductions and products."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import math

import numpy as np

from ..inputs import (
    DIMS,
    SEVERAL,
    complex_,
    family,
    ints,
    mask,
    one,
    over,
    positive,
    real,
    two,
)

# ---- reductions ------------------------------------------------------------------------------------------------------

add = family("reduce")


for _name, _options in {"sum": SEVERAL, "mean": SEVERAL, "var": SEVERAL[1:], "std": SEVERAL[1:], "prod": DIMS}.items():
    for _shape, _dims in _options:
        add(f"{_name}{list(_shape)}{_dims}", over(_name, _dims), real(*_shape))
add = family("minmax")
for _name in "amax amin".split():
    for _shape, _dims in SEVERAL:
        add(f"{_name}{list(_shape)}{_dims}", over(_name, _dims), real(*_shape))
for _name in "max min".split():
    for _shape, _dims in [*DIMS, ((), {"dim": 0})]:
        add(f"{_name}{list(_shape)}{_dims}", over(_name, _dims), real(*_shape))
for _name in "argmax argmin".split():
    for _shape, _dims in DIMS:
        add(f"{_name}{list(_shape)}{_dims}", over(_name, _dims), real(*_shape), order=0)
for _name in "all any".split():
    for _shape, _dims in [*DIMS, ((2, 3, 2), {"dim": (0, 2)})]:
        add(f"{_name}{list(_shape)}{_dims}", over(_name, _dims), mask(*_shape), order=0)
add = family("reduce")
for _shape, _dims in [
    ((3,), {"dim": 0}),
    ((2, 3), {"dim": -1}),
    ((2, 3), {"dim": (0, 1), "keepdim": True}),
    ((), {"dim": 0}),
]:
    add(f"logsumexp{list(_shape)}{_dims}", over("logsumexp", _dims), real(*_shape))
for _shape, _dim in [((), 0), ((4,), 0), ((2, 3), 0), ((2, 3), -1)]:
    add(f"cumsum{list(_shape)}{_dim}", lambda T, x, d=_dim: T.cumsum(x, d), real(*_shape))
for _p in (2, 1, 3, 0.5, math.inf, -math.inf, 0, "fro"):
    for _shape, _dims in [((3,), {}), ((2, 3), {"dim": 1}), ((2, 3), {"dim": (0, 1), "keepdim": True})]:
        if not (_p == "fro" and _dims.get("dim") == 1):
            add(
                f"norm{_p}{list(_shape)}{_dims}",
                lambda T, x, p=_p, d=_dims: T.norm(x, p, **d),
                real(*_shape),
                order=0 if _p == 0 else 2,
            )
add("norm-at-zero", lambda T, x: x.norm(), np.zeros(3), order=0)
add("norm-complex", lambda T, x: x.norm(), complex_(3))
add("sum-complex", lambda T, x: x.sum(), complex_(2, 3))
add(
    "sum-int",
    lambda T, x, m: (x.sum(), m.sum(), x.prod(), x.cumsum(0), x.sum(0, dtype=T.float64)),
    ints(4, 3),
    mask(3),
    order=0,
)
add("sum-empty", lambda T, x: (x.sum(), x.sum(0), x.prod(0), x.mean(1)), np.zeros((0, 2)), order=1)
add("sum-dtype", lambda T, x: x.sum(dtype=T.float64) + x.mean(dtype=T.float64), real(3), float32=False)
add("var-unbiased", lambda T, x: x.var(1, unbiased=False) + T.var(x, dim=1, correction=0) + x.std(1, False), real(2, 3))
add("var-complex", lambda T, x: x.var(), complex_(4))
add("std-constant", lambda T, x: x.std(), np.ones(3), order=0)
add("prod-one-zero", lambda T, x: x.prod(), np.array([2.0, 0.0, 3.0, 4.0]))
add("prod-two-zeros", lambda T, x: x.prod(1), np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0]]))
add("prod-long", lambda T, x: x.prod(), positive(7))
add = family("minmax")
add("amax-ties", lambda T, x: T.amax(x, 1) + T.max(x), np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]), order=0)
_NANS = np.array([[1.0, np.nan, np.nan], [2.0, np.inf, 2.0]])
for _name in "amax amin".split():
    for _dims in ({}, {"dim": 1}, {"dim": (0, 1), "keepdim": True}):
        add(f"{_name}-nan{_dims}", over(_name, _dims), _NANS, order=0)
for _name in "max min".split():
    add(f"{_name}-nan", over(_name, {}), _NANS, order=0)
    add(f"{_name}-nan-places", over(_name, {"dim": 1}), _NANS, order=0)
for _p in (math.inf, -math.inf):
    for _dims in ({}, {"dim": 1}):
        add(f"norm{_p}-nan{_dims}", lambda T, x, p=_p, d=_dims: T.norm(x, p, **d), _NANS, order=0)
add("max-ties", lambda T, x: T.max(x, 1), np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]), order=0)
add("max-of-two", lambda T, a, b: T.max(a, b) + T.min(a, b), real(3), real(3) + 0.01)

add("sort", lambda T, x: (*T.sort(x), *x.sort(0, descending=True)), real(3, 4))
add("sort-ties", lambda T, x: T.sort(x, 0)[0], ints(3, 6), order=0)
add("sort-scalar", lambda T, x: T.sort(x), real())
add("topk", lambda T, x: (*T.topk(x, 2), *x.topk(3, 0, largest=False)), real(3, 4))

# ---- products --------------------------------------------------------------------------------------------------------

add = family("matmul")
for _a, _b in [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((3,), (2, 3, 4)),
    ((2, 2, 3), (3,)), ((2, 2, 3), (2, 3, 2)), ((2, 1, 2, 3), (2, 3, 2)), ((2, 3), (2, 3, 2)), ((2, 0), (0, 3)),
    ((0, 2), (2, 3)), ((2, 0, 3), (3, 2)),
]:  # fmt: skip
    add(f"matmul{list(_a)}{list(_b)}", two("matmul"), real(*_a), real(*_b))
add("matmul-complex", two("matmul"), complex_(2, 3), complex_(3, 2))
add("matmul-own-transpose", lambda T, x: x @ x.T, real(3, 2))
add("matmul-transposed", lambda T, a, b: a.T @ b.T, real(3, 2), real(4, 3))
add("matmul-int", two("matmul"), ints(4, 2, 3), ints(4, 3, 2), order=0)
add("mm", two("mm"), real(2, 3), real(3, 2))
add("bmm", two("bmm"), real(2, 2, 3), real(2, 3, 2))
add("mv", two("mv"), real(2, 3), real(3))
add("dot", two("dot"), real(3), real(3))
add("outer", two("outer"), real(3), real(2))
add("addmm", lambda T, a, b, c: T.addmm(a, b, c, beta=0.5, alpha=2), real(2), real(3, 2), real(2, 2))
add("trace", one("trace"), real(3, 2))

add = family("einsum")
for _equation, _shapes in {
    "ij,jk->ik": [(2, 3), (3, 2)], "ij,jk": [(2, 3), (3, 2)], "i,i->": [(3,), (3,)], "i,j->ij": [(3,), (2,)],
    "ij->ji": [(2, 3)], "ij->": [(2, 3)], "ii->i": [(3, 3)], "ii": [(3, 3)], "bij,bjk->bik": [(2, 2, 3), (2, 3, 2)],
    "...ij,...jk->...ik": [(2, 1, 2, 3), (2, 3, 2)], "bhqd,bhkd->bhqk": [(1, 2, 2, 3), (1, 2, 3, 3)],
    "i,ij,j->": [(2,), (2, 3), (3,)], "ijk,k": [(2, 2, 3), (3,)], "ij,k->i": [(2, 3), (2,)],
    "iij,j->i": [(2, 2, 3), (3,)],
    "a,b,c->abc": [(2,), (2,), (2,)], "i,->i": [(3,), ()],
}.items():  # fmt: skip
    add(f"einsum {_equation}", lambda T, *x, e=_equation: T.einsum(e, *x), *[real(*s) for s in _shapes])
add("einsum-complex", lambda T, a, b: T.einsum("ij,jk->ik", a, b), complex_(2, 3), complex_(3, 2))
add("einsum-list", lambda T, a, b: T.einsum("ij,kj->ik", [a, b]), real(2, 3), real(4, 3))
