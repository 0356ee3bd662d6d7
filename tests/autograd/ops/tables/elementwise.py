"""Elementwise ops: of one operand, of two, comparisons and choices."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import math

import numpy as np

from ..inputs import (
    PAIRS,
    SHAPES,
    above_one,
    complex_,
    family,
    ints,
    mask,
    one,
    positive,
    real,
    two,
    unit,
)

# ---- one operand -----------------------------------------------------------------------------------------------------

add = family("unary")


for _name, _domain in {
    **dict.fromkeys("neg square exp expm1 sin cos atan sinh cosh tanh asinh sigmoid".split(), real),
    **dict.fromkeys("sqrt rsqrt log log1p log2 log10 reciprocal".split(), positive),
    **dict.fromkeys("tan asin acos atanh".split(), unit),
    "acosh": above_one,
    **dict.fromkeys("abs sign sgn floor ceil trunc round relu".split(), real),
}.items():
    for _shape in SHAPES:
        add(f"{_name}{list(_shape)}", one(_name), _domain(*_shape))
for _name in "neg square exp sin cos tanh sqrt reciprocal log abs sigmoid".split():
    add(f"{_name}-complex", one(_name), complex_(3))
for _name in "neg abs sign floor ceil trunc round square".split():
    add(f"{_name}-int", one(_name), np.array([-2, 0, 3]), order=0)
for _name in "exp sqrt sigmoid reciprocal".split():
    add(f"{_name}-int", one(_name), np.array([2, 1, 3]), order=0)
add("sgn-complex", one("sgn"), complex_(3))
add("sgn-zero", one("sgn"), np.array([0, 1j]), order=0)
add("round-decimals", lambda T, x: T.round(x, decimals=1), real(4))
add("abs-at-zero", lambda T, x: T.abs(x) * 2, np.array([0.0, 1.0, -1.0]), order=0)
add("zeros_as", lambda T, x: x.floor() + x, real(3))

# ---- two operands ----------------------------------------------------------------------------------------------------

add = family("arithmetic")


for _name in "add sub mul div atan2 logaddexp hypot remainder fmod floor_divide".split():
    for _a, _b in PAIRS:  # of floor_divide torch has no derivative
        add(
            f"{_name}{list(_a)}{list(_b)}",
            two(_name),
            real(*_a),
            positive(*_b) * 1.3,
            oracle=_name != "floor_divide",
        )
add("floor_divide", lambda T, a, b: a.detach() // b.detach(), real(4), positive(4), order=0)
for _name in "maximum minimum".split():
    for _a, _b in PAIRS:
        add(f"{_name}{list(_a)}{list(_b)}", two(_name), real(*_a), real(*_b) + 0.013)
for _a, _b in PAIRS:
    add(f"pow{list(_a)}{list(_b)}", two("pow"), positive(*_a), real(*_b))
for _name in "add sub mul div".split():
    add(f"{_name}-complex", two(_name), complex_(3), complex_(2, 3))
    add(f"{_name}-complex-real", two(_name), complex_(3), real(3))
add("pow-complex", two("pow"), complex_(3), complex_(3))
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
add("maximum-ties", two("maximum"), np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 3.0]), order=0)
add("lerp", lambda T, a, b, w: T.lerp(a, b, w), real(3), real(3), unit(3))
add("lerp-number", lambda T, a, b: T.lerp(a, b, 0.3), real(3), real(3))
add("addcmul", lambda T, a, b, c: T.addcmul(a, b, c, value=0.5), real(3), real(2, 3), real(3))
add("addcdiv", lambda T, a, b, c: T.addcdiv(a, b, c, value=0.5), real(3), real(2, 3), positive(3))

# ---- comparisons and choices -----------------------------------------------------------------------------------------

add = family("compare")
for _name in "eq ne lt le gt ge".split():
    for _a, _b in PAIRS:
        add(f"{_name}{list(_a)}{list(_b)}", two(_name), np.round(real(*_a)), np.round(real(*_b)), order=0)
    add(f"{_name}-number", lambda T, x, n=_name: getattr(T, n)(x, 1), ints(3, 4), order=0)
for _name in "logical_and logical_or logical_xor".split():
    add(f"{_name}", two(_name), ints(2, 4), ints(2, 4), order=0)
add("logical_not", one("logical_not"), ints(2, 4), order=0)
for _name in "isnan isinf isfinite".split():
    add(_name, one(_name), np.array([1.0, math.nan, math.inf, -math.inf]), order=0)
for _name in "bitwise_and bitwise_or bitwise_xor".split():
    add(f"{_name}-int", two(_name), ints(8, 4), ints(8, 4), order=0)
    add(f"{_name}-bool", two(_name), mask(4), mask(4), order=0)
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
