"""The table of cases: per family, uses of each op in several shapes, 0-dimensional and broadcast ones among them."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .check import Case, functional

_rng = np.random.default_rng(0)


def real(*shape: int) -> np.ndarray:
    """Numbers around zero, none of them near zero, near another, or near a half."""
    count = math.prod(shape)
    spaced = np.linspace(-1.9, 2.1, max(count, 2))[:count] + 0.037
    return _rng.permutation(spaced).reshape(shape)


def positive(*shape: int) -> np.ndarray:
    return np.abs(real(*shape)) + 0.2


def unit(*shape: int) -> np.ndarray:
    return real(*shape) * 0.4


def above_one(*shape: int) -> np.ndarray:
    return positive(*shape) + 1.1


def complex_(*shape: int) -> np.ndarray:
    return real(*shape) + 1j * positive(*shape)


def ints(high: int, *shape: int) -> np.ndarray:
    return _rng.integers(0, high, shape)


def mask(*shape: int) -> np.ndarray:
    out = _rng.random(shape) > 0.5
    if out.size > 1:
        out.flat[0], out.flat[1] = True, False
    return out


FAMILIES: dict[str, list[Case]] = {}


def family(name: str) -> Any:
    cases: list[Case] = FAMILIES.setdefault(name, [])

    def add(label: str, run: Any, *inputs: np.ndarray, **options: Any) -> None:
        cases.append(Case(label, run, tuple([np.asarray(i) for i in inputs]), **options))

    return add


# ---- one operand -----------------------------------------------------------------------------------------------------

add = family("unary")
SHAPES = [(), (3,), (2, 3), (0, 2)]


def _function(name: str) -> Any:
    return lambda T, x: getattr(T, name)(x)


for _name, _domain in {
    **dict.fromkeys("neg square exp expm1 sin cos atan sinh cosh tanh asinh sigmoid".split(), real),
    **dict.fromkeys("sqrt rsqrt log log1p log2 log10 reciprocal".split(), positive),
    **dict.fromkeys("tan asin acos atanh".split(), unit),
    "acosh": above_one,
    **dict.fromkeys("abs sign sgn floor ceil trunc round relu".split(), real),
}.items():
    for _shape in SHAPES:
        add(f"{_name}{list(_shape)}", _function(_name), _domain(*_shape))
for _name in "neg square exp sin cos tanh sqrt reciprocal log abs sigmoid".split():
    add(f"{_name}-complex", _function(_name), complex_(3))
for _name in "neg abs sign floor ceil trunc round square".split():
    add(f"{_name}-int", _function(_name), np.array([-2, 0, 3]), order=0)
for _name in "exp sqrt sigmoid reciprocal".split():
    add(f"{_name}-int", _function(_name), np.array([2, 1, 3]), order=0)
add("sgn-complex", _function("sgn"), complex_(3))
add("sgn-zero", _function("sgn"), np.array([0, 1j]), order=0)
add("round-decimals", lambda T, x: T.round(x, decimals=1), real(4))
add("real", lambda T, x: T.real(x), complex_(3), order=1)
add("imag", lambda T, x: T.imag(x), complex_(3), order=1)
add("conj", lambda T, x: T.conj(x) * 2, complex_(3), order=1)
add("abs-at-zero", lambda T, x: T.abs(x) * 2, np.array([0.0, 1.0, -1.0]), order=0)
add("zeros_as", lambda T, x: x.floor() + x, real(3))

# ---- two operands ----------------------------------------------------------------------------------------------------

add = family("arithmetic")
PAIRS = [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 2)), ((2, 0), (1, 1))]


def _both(name: str) -> Any:
    return lambda T, a, b: getattr(T, name)(a, b)


for _name in "add sub mul div atan2 logaddexp hypot remainder fmod floor_divide".split():
    for _a, _b in PAIRS:  # of floor_divide torch has no derivative
        add(
            f"{_name}{list(_a)}{list(_b)}",
            _both(_name),
            real(*_a),
            positive(*_b) * 1.3,
            oracle=_name != "floor_divide",
        )
add("floor_divide", lambda T, a, b: a.detach() // b.detach(), real(4), positive(4), order=0)
for _name in "maximum minimum".split():
    for _a, _b in PAIRS:
        add(f"{_name}{list(_a)}{list(_b)}", _both(_name), real(*_a), real(*_b) + 0.013)
for _a, _b in PAIRS:
    add(f"pow{list(_a)}{list(_b)}", _both("pow"), positive(*_a), real(*_b))
for _name in "add sub mul div".split():
    add(f"{_name}-complex", _both(_name), complex_(3), complex_(2, 3), order=1)
    add(f"{_name}-complex-real", _both(_name), complex_(3), real(3), order=1)
add("pow-complex", _both("pow"), complex_(3), complex_(3), order=1)
for _exponent in (0, 1, 2, 3, -1, -2, 0.5, 2.5):
    add(f"pow-{_exponent}", lambda T, x, e=_exponent: x**e, positive(2, 3))
add("pow-negative-base", lambda T, x: x**3, real(3))
add("pow-of-number", lambda T, x: 2.0**x, real(2, 3))
add("pow-of-zero", lambda T, x: 0.0**x, positive(3), order=1)
add("pow-zero-base", lambda T, x: x**2, np.array([0.0, 1.0]), order=1)
add("number-left", lambda T, x: (2 - x) * 3 / (5 + x) + 1 / x, positive(3))
add("number-right", lambda T, x: (x - 2) * 3 / 4 + 1, real(2, 2))
add("mod-number", lambda T, x: x % 0.7, real(3))
add("mod-of-number", lambda T, x: 3.0 % (x + 3), real(3), oracle=False)
add("alpha", lambda T, a, b: T.add(a, b, alpha=2) - T.sub(a, b, alpha=0.5), real(3), real(3))
add("div-floor", lambda T, a, b: T.div(a, b, rounding_mode="floor"), real(3), positive(3))
add("div-trunc", lambda T, a, b: T.div(a, b, rounding_mode="trunc"), real(3), positive(3))
add(
    "ints",
    lambda T, a, b: (a + b, a * b, a - b, a // b, a % b, T.fmod(a, b), a / b),
    ints(9, 4) - 4,
    ints(3, 4) + 1,
    order=0,
)
add(
    "ints-trunc",
    lambda T, a, b: T.div(a, b, rounding_mode="trunc"),
    np.array([-7, 7, -6]),
    np.array([2, -2, 3]),
    order=0,
)
for _low, _high in ((-0.5, 0.5), (None, 0.5), (-0.5, None)):
    add(f"clamp-{_low}-{_high}", lambda T, x, a=_low, b=_high: T.clamp(x, a, b), real(2, 3))
add("clamp-one-sided", lambda T, x: T.clamp_min(x, -0.5) * x.clamp_max(0.5), real(5))
add("clamp-tensors", lambda T, x, a, b: T.clamp(x, a, b), real(5), np.full(5, -0.4), np.full(5, 0.6))
add("clamp-one-tensor", lambda T, x, a: T.clamp(x, min=a) + T.clamp(x, max=a), real(5), np.array(0.1))
add("clamp-crossed", lambda T, x, a, b: T.clamp(x, a, b), real(5), np.full(5, 0.6), np.full(5, -0.4))
add("clamp-int", lambda T, x: (x.clamp(1), x.clamp(0.5)), ints(4, 5), order=0)
add("maximum-ties", _both("maximum"), np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 3.0]), order=0)
add("lerp", lambda T, a, b, w: T.lerp(a, b, w), real(3), real(3), unit(3))
add("lerp-number", lambda T, a, b: T.lerp(a, b, 0.3), real(3), real(3))
add("addcmul", lambda T, a, b, c: T.addcmul(a, b, c, value=0.5), real(3), real(2, 3), real(3))
add("addcdiv", lambda T, a, b, c: T.addcdiv(a, b, c, value=0.5), real(3), real(2, 3), positive(3))

# ---- comparisons and choices -----------------------------------------------------------------------------------------

add = family("compare")
for _name in "eq ne lt le gt ge".split():
    for _a, _b in PAIRS:
        add(f"{_name}{list(_a)}{list(_b)}", _both(_name), np.round(real(*_a)), np.round(real(*_b)), order=0)
    add(f"{_name}-number", lambda T, x, n=_name: getattr(T, n)(x, 1), ints(3, 4), order=0)
for _name in "logical_and logical_or logical_xor".split():
    add(f"{_name}", _both(_name), ints(2, 4), ints(2, 4), order=0)
add("logical_not", _function("logical_not"), ints(2, 4), order=0)
for _name in "isnan isinf isfinite".split():
    add(_name, _function(_name), np.array([1.0, math.nan, math.inf, -math.inf]), order=0)
for _name in "bitwise_and bitwise_or bitwise_xor".split():
    add(f"{_name}-int", _both(_name), ints(8, 4), ints(8, 4), order=0)
    add(f"{_name}-bool", _both(_name), mask(4), mask(4), order=0)
add("bitwise_not", lambda T, x, m: (~x, ~m), ints(8, 4), mask(4), order=0)
for _a, _b in PAIRS:
    add(f"where{list(_a)}{list(_b)}", lambda T, m, a, b: T.where(m, a, b), mask(*_a), real(*_a), real(*_b))
add("where-number", lambda T, m, a: T.where(m, a, 0.5) + T.where(m, 2, a), mask(2, 3), real(3))
add("where-numbers", lambda T, m: (T.where(m, 1.0, 0.0), T.where(m, 1, 2)), mask(3), order=0)
add("where-hides-nan", lambda T, m, a: T.where(m, T.sqrt(a), 0.0), np.array([True, True]), positive(2))
add("where-indices", lambda T, m: T.where(m), mask(2, 3), order=0)
add("masked_fill", lambda T, a, m: a.masked_fill(m, 3.0), real(2, 3), mask(3))
add("masked_fill-tensor", lambda T, a, m, v: a.masked_fill(m, v), real(2, 3), mask(2, 3), real())
add("keep", lambda T, a: T.relu(a), real(4))

# ---- reductions ------------------------------------------------------------------------------------------------------

add = family("reduce")
DIMS = [((), {}), ((3,), {}), ((2, 3), {}), ((2, 3), {"dim": 0}), ((2, 3), {"dim": -1, "keepdim": True})]
SEVERAL = [
    *DIMS,
    ((2, 3, 2), {"dim": (0, 2)}),
    ((2, 3, 2), {"dim": (-1, 0), "keepdim": True}),
    ((2, 3), {"dim": (0, 1)}),
]


def _over(name: str, options: dict[str, Any]) -> Any:
    return lambda T, x: getattr(T, name)(x, **options)


for _name, _options in {"sum": SEVERAL, "mean": SEVERAL, "var": SEVERAL[1:], "std": SEVERAL[1:], "prod": DIMS}.items():
    for _shape, _dims in _options:
        add(f"{_name}{list(_shape)}{_dims}", _over(_name, _dims), real(*_shape))
add = family("extremes")
for _name in "amax amin".split():
    for _shape, _dims in SEVERAL:
        add(f"{_name}{list(_shape)}{_dims}", _over(_name, _dims), real(*_shape))
for _name in "max min".split():
    for _shape, _dims in [*DIMS, ((), {"dim": 0})]:
        add(f"{_name}{list(_shape)}{_dims}", _over(_name, _dims), real(*_shape))
for _name in "argmax argmin".split():
    for _shape, _dims in DIMS:
        add(f"{_name}{list(_shape)}{_dims}", _over(_name, _dims), real(*_shape), order=0)
for _name in "all any".split():
    for _shape, _dims in [*DIMS, ((2, 3, 2), {"dim": (0, 2)})]:
        add(f"{_name}{list(_shape)}{_dims}", _over(_name, _dims), mask(*_shape), order=0)
add = family("reduce")
for _shape, _dims in [
    ((3,), {"dim": 0}),
    ((2, 3), {"dim": -1}),
    ((2, 3), {"dim": (0, 1), "keepdim": True}),
    ((), {"dim": 0}),
]:
    add(f"logsumexp{list(_shape)}{_dims}", _over("logsumexp", _dims), real(*_shape))
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
add("norm-complex", lambda T, x: x.norm(), complex_(3), order=1)
add("sum-complex", lambda T, x: x.sum(), complex_(2, 3), order=1)
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
add("var-complex", lambda T, x: x.var(), complex_(4), order=1)
add("std-constant", lambda T, x: x.std(), np.ones(3), order=0)
add("prod-one-zero", lambda T, x: x.prod(), np.array([2.0, 0.0, 3.0, 4.0]))
add("prod-two-zeros", lambda T, x: x.prod(1), np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0]]))
add("prod-long", lambda T, x: x.prod(), positive(7))
add = family("extremes")
add("amax-ties", lambda T, x: T.amax(x, 1) + T.max(x), np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]), order=0)
add("max-ties", lambda T, x: T.max(x, 1), np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]), order=0)
add("max-of-two", lambda T, a, b: T.max(a, b) + T.min(a, b), real(3), real(3) + 0.01)

add("sort", lambda T, x: (*T.sort(x), *x.sort(0, descending=True)), real(3, 4))
add("sort-ties", lambda T, x: T.sort(x, 0)[0], ints(3, 6), order=0)
add("sort-scalar", lambda T, x: T.sort(x), real())
add("topk", lambda T, x: (*T.topk(x, 2), *x.topk(3, 0, largest=False)), real(3, 4))

# ---- products --------------------------------------------------------------------------------------------------------

add = family("linear")
for _a, _b in [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((3,), (2, 3, 4)),
    ((2, 2, 3), (3,)), ((2, 2, 3), (2, 3, 2)), ((2, 1, 2, 3), (2, 3, 2)), ((2, 3), (2, 3, 2)), ((2, 0), (0, 3)),
    ((0, 2), (2, 3)), ((2, 0, 3), (3, 2)),
]:  # fmt: skip
    add(f"matmul{list(_a)}{list(_b)}", _both("matmul"), real(*_a), real(*_b))
add("matmul-complex", _both("matmul"), complex_(2, 3), complex_(3, 2), order=1)
add("matmul-own-transpose", lambda T, x: x @ x.T, real(3, 2))
add("matmul-transposed", lambda T, a, b: a.T @ b.T, real(3, 2), real(4, 3))
add("matmul-int", _both("matmul"), ints(4, 2, 3), ints(4, 3, 2), order=0)
add("mm", _both("mm"), real(2, 3), real(3, 2))
add("bmm", _both("bmm"), real(2, 2, 3), real(2, 3, 2))
add("mv", _both("mv"), real(2, 3), real(3))
add("dot", _both("dot"), real(3), real(3))
add("outer", _both("outer"), real(3), real(2))
add("addmm", lambda T, a, b, c: T.addmm(a, b, c, beta=0.5, alpha=2), real(2), real(3, 2), real(2, 2))
add(
    "linear",
    lambda T, x, w, b: functional(T).linear(x, w, b) + functional(T).linear(x, w),
    real(2, 3),
    real(4, 3),
    real(4),
)
add("trace", _function("trace"), real(3, 2))

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
add("einsum-complex", lambda T, a, b: T.einsum("ij,jk->ik", a, b), complex_(2, 3), complex_(3, 2), order=1)
add("einsum-list", lambda T, a, b: T.einsum("ij,kj->ik", [a, b]), real(2, 3), real(4, 3))

# ---- shape -----------------------------------------------------------------------------------------------------------

add = family("shape")
add("reshape", lambda T, x: (x.reshape(3, 2), x.reshape((-1,)), x.reshape(1, -1, 2), T.reshape(x, (6,))), real(2, 3))
add("reshape-transposed", lambda T, x: x.T.reshape(-1), real(2, 3))
add("reshape-scalar", lambda T, x: (x.reshape(1, 1), x.reshape(1).reshape(())), real())
add("view", lambda T, x: (x.view(6), x.view(-1, 2), x.view_as(x.T.contiguous())), real(2, 3))
add("flatten", lambda T, x: (x.flatten(), x.flatten(1), T.flatten(x, 0, 1), x.ravel()), real(2, 3, 2))
add("unflatten", lambda T, x: x.unflatten(1, (2, -1)), real(2, 4))
add("squeeze", lambda T, x: (x.squeeze(), x.squeeze(0), x.squeeze(1), T.squeeze(x, (0, 2))), real(1, 3, 1))
add("unsqueeze", lambda T, x: (x.unsqueeze(0), x.unsqueeze(-1), T.unsqueeze(x, 1)), real(3))
add("transpose", lambda T, x: (x.transpose(0, 2), T.transpose(x, -1, 1), x.mT, x.swapaxes(0, 1)), real(2, 3, 2))
add("t", lambda T, x, y: (x.t(), y.t(), x.T, T.t(x)), real(2, 3), real(3))
add("permute", lambda T, x: (x.permute(2, 0, 1), T.permute(x, (-1, 0, 1))), real(2, 3, 2))
add("H", lambda T, x: x.H, complex_(2, 3), order=1)
add("movedim", lambda T, x: (x.movedim(0, 2), T.movedim(x, (0, 1), (2, 0)), T.moveaxis(x, -1, 0)), real(2, 3, 2))
add("expand", lambda T, x: (x.expand(4, 2, 3), x.expand(2, -1, -1), x.broadcast_to((2, 2, 3))), real(1, 3))
add("expand-scalar", lambda T, x: (x.expand(2, 3), x.expand(0)), real())
add("expand-transposed", lambda T, x: x.T.expand(2, 3, 2), real(2, 3))
add("expand_as", lambda T, x, y: x.expand_as(y), real(3), real(2, 3))
add("clone", lambda T, x: (x.clone(), T.clone(x.T)), real(2, 3))
add("contiguous", lambda T, x: (x.contiguous(), x.T.contiguous()), real(2, 3))
add("flip", lambda T, x: (x.flip(0), T.flip(x, (0, 1)), x.flip([-1])), real(2, 3))
add("roll", lambda T, x: (x.roll(1, 0), T.roll(x, (1, -2), (0, 1)), T.roll(x, 2)), real(2, 3))

add = family("joining")
add("cat", lambda T, a, b: (T.cat((a, b)), T.cat([b, a, a], dim=0), T.concat((a, a), -1)), real(2, 3), real(1, 3))
add("cat-empty-vector", lambda T, a, b: T.cat((a, b)), np.zeros(0), real(2, 3))
add("cat-promotes", lambda T, a, b: T.cat((a, b)), ints(3, 2), real(3))
add("stack", lambda T, a, b: (T.stack((a, b)), T.stack([a, b], dim=1), T.stack((a, b), -1)), real(2, 3), real(2, 3))
add("stack-scalars", lambda T, a, b: T.stack((a, b)), real(), real())
add("vstack", lambda T, a, b: (T.vstack((a, b)), T.hstack((a, a)), T.hstack((b, b))), real(3), real(2, 3))
add("split", lambda T, x: (*x.split(2), *T.split(x, [1, 4]), *x.T.split(2, 1)), real(5, 2))
add("chunk", lambda T, x: (*x.chunk(2), *T.chunk(x, 4, 0)), real(5, 2))
add("unbind", lambda T, x: (*x.unbind(), *T.unbind(x, 1)), real(2, 3))
add("iteration", lambda T, x: [row * i for i, row in enumerate(x)], real(3, 2))
add("narrow", lambda T, x: (x.narrow(0, 1, 2), T.narrow(x, 1, 0, 1), x.select(0, 1), T.select(x, 1, -1)), real(3, 2))
add("repeat", lambda T, x: (x.repeat(2, 3), x.repeat(2, 1, 2), T.tile(x, (2,)), x.tile(2, 1, 1)), real(2, 3))
add("repeat_interleave", lambda T, x: (x.repeat_interleave(2), T.repeat_interleave(x, 3, 1)), real(2, 3))

# ---- indices ---------------------------------------------------------------------------------------------------------

add = family("indexing")
BASIC = "0 -1 1: :2 ::2 1:1 5: -2: ... None 0,1 :,0 ...,0 0,... None,:,None 1,None,: :,1:3 ::2,::2 0,:,None ...,None,0"
for _text in BASIC.split():
    add(f"[{_text}]", eval(f"lambda T, x: x[{_text}]"), real(3, 4))
add("scalar[()]", lambda T, x: (x[()], x[...], x[None]), real())
add("[list]", lambda T, x: (x[[0, 2, 2]], x[[0, 1], [1, 1]]), real(3, 4))
add("[tensor]", lambda T, x, i: (x[i], x[:, i], x[i, 1:], x[..., i], x[i, None]), real(3, 3), np.array([0, 2, 2, -1]))
add(
    "[tensors]",
    lambda T, x, i, j: (x[i, j], x[i, :, j], x[:, i, j], x[i[:, None], j]),
    real(3, 3, 3),
    ints(3, 2),
    ints(3, 2),
)
add("[int beside tensor]", lambda T, x, i: (x[0, :, i], x[i, 0], x[:, 1, i], x[i, None, 0]), real(3, 3, 3), ints(3, 2))
add("[0-d tensor]", lambda T, x, i: (x[i], x[:, i], x[i, i]), real(3, 3), np.array(1))
add("[mask]", lambda T, x, m: x[m], real(3, 4), mask(3, 4))
add("[row mask]", lambda T, x, m: (x[m], x[m, 1], x[m, :2], x[1:][m[1:]]), real(3, 4), mask(3))
add("[column mask]", lambda T, x, m: (x[:, m], x[0, m]), real(3, 4), mask(4))
add("[array]", lambda T, x: (x[np.array([0, 1])], x[np.array([True, False, True])]), real(3, 4))
add("[empty]", lambda T, x: (x[[]], x[T.tensor([], dtype=T.int64)]), real(3, 4))
add("nonzero", lambda T, m: (T.nonzero(m), *T.nonzero(m, as_tuple=True)), mask(2, 3), order=0)


def _put(index: Any) -> Any:
    def run(T: Any, x: Any, value: Any) -> Any:
        y = x * 2
        y[index] = value
        return y * y

    return run


for _label, _index, _value in [
    ("int", 0, (4,)), ("slice", slice(1, 3), (2, 4)), ("broadcast", slice(None), ()), ("column", (..., 1), (3,)),
    ("leading ones", 0, (1, 4)), ("list", [0, 2], (2, 4)), ("pairs", ([0, 1], [1, 2]), (2,)),
    ("mixed", (1, [0, 2]), (2,)), ("mask", np.array([True, False, True]), (2, 4)),
    ("mask of one", np.array([True, False, True]), ()),
    ("row and mask", (1, np.array([True, False, True, False])), ()),
]:  # fmt: skip
    add(f"put {_label}", _put(_index), real(3, 4), real(*_value))


def _fill(T: Any, x: Any) -> Any:
    y = x * 2
    y[0] = 3.0
    y[:, 1] = 4
    y[y > 100] = 0.5
    y[1:, [0]] = -1.0
    return y * y


add("put numbers", _fill, real(3, 4))

add = family("gathering")
add("gather", lambda T, x, i: (x.gather(1, i), T.gather(x, 0, i)), real(3, 3), ints(3, 3, 3))
add("gather-smaller", lambda T, x, i: (x.gather(0, i), x.gather(-1, i)), real(3, 4), ints(3, 2, 3))
add("gather-scalar", lambda T, x, i: T.gather(x, 0, i), real(), np.array(0))
add("index_select", lambda T, x, i: (x.index_select(0, i), T.index_select(x, 1, i)), real(3, 3), np.array([0, 2, 2]))
add(
    "index_add",
    lambda T, x, i, s: x.index_add(0, i, s) + T.index_add(x, 0, i, s, alpha=2),
    real(3, 2),
    np.array([0, 2, 0]),
    real(3, 2),
)
add(
    "take_along_dim",
    lambda T, x, i: (T.take_along_dim(x, i, 1), x.take_along_dim(i[:1], 0), T.take_along_dim(x, i)),
    real(3, 3),
    ints(3, 3, 3),
)
add("scatter", lambda T, x, i, s: x.scatter(1, i, s), real(3, 4), np.array([[0, 2], [3, 1], [1, 0]]), real(3, 2))
add(
    "scatter-part",
    lambda T, x, i, s: x.scatter(0, i, s),
    real(3, 4),
    np.array([[0, 2], [2, 1]]),
    real(3, 3),
    oracle=False,
)
add("scatter-number", lambda T, x, i: T.scatter(x, 0, i, 2.5), real(3, 4), np.array([[0, 2, 1, 1]]))
add("scatter_add", lambda T, x, i, s: x.scatter_add(0, i, s), real(3, 4), ints(3, 2, 4), real(2, 4))

add = family("diagonals")
add("diagonal", lambda T, x: (x.diagonal(), x.diagonal(1), T.diagonal(x, -1, 1, 0)), real(3, 4))
add("diagonal-batch", lambda T, x: (x.diagonal(0, 1, 2), x.diagonal(1, 0, -1)), real(2, 3, 3))
add("diag", lambda T, x, y: (T.diag(x), x.diag(1), T.diag(y), T.diag(y, 1), y.diag(-2)), real(3, 4), real(3))
add("tril", lambda T, x: (x.tril(), T.tril(x, 1), T.tril(x, -1)), real(2, 3, 4))
add("triu", lambda T, x: (x.triu(), T.triu(x, 1), T.triu(x, -1)), real(2, 3, 4))
add("pad", lambda T, x: (functional(T).pad(x, (1, 2)), functional(T).pad(x, (0, 1, 2, 0), value=1.5)), real(2, 3))
add("pad-negative", lambda T, x: functional(T).pad(x, (-1, 1)), real(2, 3))

# ---- networks --------------------------------------------------------------------------------------------------------

add = family("activations")
for _shape, _dim in [((), 0), ((3,), 0), ((2, 3), 0), ((2, 3), -1), ((2, 3, 2), 1)]:
    for _name in ("softmax", "log_softmax"):
        add(f"{_name}{list(_shape)}{_dim}", lambda T, x, n=_name, d=_dim: getattr(T, n)(x, d), real(*_shape))
add("softmax-dtype", lambda T, x: T.softmax(x, 0, dtype=T.float64), ints(3, 3), order=0)
for _shape in SHAPES:
    add(f"softplus{list(_shape)}", lambda T, x: functional(T).softplus(x), real(*_shape))
    add(f"erf{list(_shape)}", _function("erf"), real(*_shape))
add("softplus-threshold", lambda T, x: functional(T).softplus(x, beta=2.0, threshold=1.5), real(5))
add("erf-wide", _function("erf"), np.linspace(-9, 9, 37), order=1)
add("leaky_relu", lambda T, x: functional(T).leaky_relu(x) + functional(T).leaky_relu(x, 0.2), real(5))
add("elu", lambda T, x: functional(T).elu(x) + functional(T).elu(x, 0.5), real(5))
add("silu", lambda T, x: functional(T).silu(x), real(5))
add("gelu", lambda T, x: functional(T).gelu(x), real(5))
add("gelu-tanh", lambda T, x: functional(T).gelu(x, approximate="tanh"), real(5))

add = family("losses")
for _reduction in ("mean", "sum", "none"):
    add(
        f"mse-{_reduction}",
        lambda T, a, b, r=_reduction: functional(T).mse_loss(a, b, reduction=r),
        real(2, 3),
        real(2, 3),
    )
    add(
        f"l1-{_reduction}",
        lambda T, a, b, r=_reduction: functional(T).l1_loss(a, b, reduction=r),
        real(2, 3),
        real(2, 3) + 0.01,
    )
    add(
        f"nll-{_reduction}",
        lambda T, x, y, r=_reduction: functional(T).nll_loss(T.log_softmax(x, 1), y, reduction=r),
        real(4, 3),
        np.array([0, 2, 1, 2]),
    )
    add(
        f"cross_entropy-{_reduction}",
        lambda T, x, y, r=_reduction: functional(T).cross_entropy(x, y, reduction=r),
        real(4, 3),
        np.array([0, 2, 1, 2]),
    )
    add(
        f"ignored-{_reduction}",
        lambda T, x, y, w, r=_reduction: functional(T).cross_entropy(
            x, y, weight=w.detach(), ignore_index=1, reduction=r
        ),
        real(4, 3),
        np.array([0, 2, 1, 2]),
        positive(3),
        order=0,
    )
    add(
        f"smoothed-{_reduction}",
        lambda T, x, y, r=_reduction: functional(T).cross_entropy(x, y, label_smoothing=0.1, reduction=r),
        real(4, 3),
        np.array([0, 2, 1, 2]),
    )
    add(
        f"probabilities-{_reduction}",
        lambda T, x, y, r=_reduction: functional(T).cross_entropy(x, y, reduction=r),
        real(4, 3),
        positive(4, 3),
    )
add(
    "smoothed-weighted",
    lambda T, x, y, w: functional(T).cross_entropy(x, y, weight=w.detach(), label_smoothing=0.1, ignore_index=0),
    real(4, 3),
    np.array([0, 2, 1, 2]),
    positive(3),
    order=0,
)
add("cross_entropy-vector", lambda T, x, y: functional(T).cross_entropy(x, y), real(3), np.array(1))
add("cross_entropy-images", lambda T, x, y: functional(T).cross_entropy(x, y), real(2, 3, 2), ints(3, 2, 2))
add("one_hot", lambda T, y: (functional(T).one_hot(y, 4), functional(T).one_hot(y)), ints(3, 2, 2), order=0)

add = family("layouts")
add("to_dtype", lambda T, x: x.to(T.float32).sin().double(), real(3), order=0, float32=False)
add("to_dtype-int", lambda T, x: (x.long(), x.bool(), x.int(), x.to(T.complex128)), real(3), order=0, float32=False)
add("to_dtype-complex", lambda T, x: x.to(T.complex128) * 1j, real(3), order=1, float32=False)
