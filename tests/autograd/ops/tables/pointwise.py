"""Other names, complex numbers, and elementwise functions made of others."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import math

import numpy as np

from ..inputs import PAIRS, SHAPES, complex_, family, ints, one, positive, real, two, unit

add = family("aliases")
for _name in "absolute negative fix arccos arcsin arctan arcsinh arctanh".split():
    add(_name, one(_name), unit(3))
add("arccosh", one("arccosh"), positive(3) + 1.1)
for _name in "arctan2 multiply subtract divide true_divide".split():
    add(_name, two(_name), real(2, 3), positive(3))
add("clip", lambda T, x: (T.clip(x, -0.5, 0.5), x.clip(min=0.1)), real(2, 3))
for _name in "greater greater_equal less less_equal not_equal".split():
    add(_name, two(_name), ints(3, 4), ints(3, 4), order=0)
add("bitwise_invert", lambda T, x: T.bitwise_invert(x), ints(8, 3), order=0, oracle=False)
add("conj_physical", one("conj_physical"), complex_(3))
add("expand_dims", lambda T, x: (T.expand_dims(x, 0), T.permute_dims(x, (1, 0))), real(2, 3), oracle=False)
add("unstack", lambda T, x: (*T.unstack(x, 1), T.matrix_transpose(x)), real(2, 3), oracle=False)
add("broadcast_arrays", lambda T, a, b: T.broadcast_arrays(a, b), real(2, 1), real(3), oracle=False)
add("ger", two("ger"), real(2), real(3))
add("astype", lambda T, x: T.astype(x, T.float64), ints(3, 3), order=0, oracle=False)

add = family("complex_numbers")
add("real", lambda T, x: T.real(x), complex_(3))
add("imag", lambda T, x: T.imag(x), complex_(3))
add("conj", lambda T, x: T.conj(x) * 2, complex_(3))
add("angle", one("angle"), complex_(2, 2))
add("angle-real", one("angle"), np.array([-1.5, 0.5, 2.0]))
add("complex", two("complex"), real(3), positive(3))
add("polar", two("polar"), positive(3), real(3))
add("view_as_real", one("view_as_real"), complex_(2, 2))
add("view_as_complex", one("view_as_complex"), real(3, 2))
add("resolve", lambda T, x: T.resolve_conj(x) * T.resolve_neg(x), complex_(3))
add("is_complex", lambda T, x: T.tensor(T.is_complex(x)), complex_(2), order=0)

add = family("pointwise")
for _shape in SHAPES:
    for _name in "exp2 deg2rad rad2deg frac sinc positive nan_to_num".split():
        add(f"{_name}{list(_shape)}", one(_name), real(*_shape))
add("sinc-zero", one("sinc"), np.array([0.0, 1.0, 0.3]), order=1)
add("logit", lambda T, x: T.logit(x) + T.logit(x, 0.2), np.array([0.3, 0.6, 0.9]))
add(
    "nan_to_num-odd",
    lambda T, x: (T.nan_to_num(x), x.nan_to_num(1.0, 2.0, 3.0)),
    np.array([math.nan, math.inf, -math.inf, 1.0]),
    float32=False,
    order=0,
)
for _a, _b in PAIRS:
    add(f"copysign{list(_a)}{list(_b)}", two("copysign"), real(*_a), real(*_b))
    add(f"xlogy{list(_a)}{list(_b)}", two("xlogy"), real(*_a), positive(*_b))
    for _name in "fmax fmin".split():
        add(f"{_name}{list(_a)}{list(_b)}", two(_name), real(*_a), real(*_b) + 0.013)
add("copysign-number", lambda T, x: T.copysign(x, -1.0), real(3))
add("xlogy-zero", two("xlogy"), np.array([0.0, 0.0, 2.0]), np.array([0.0, 2.0, 0.5]), order=0)
add("xlogy-numbers", lambda T, x: T.xlogy(2.0, x) + T.xlogy(x, 2.0), positive(3))
add("xlog1py", lambda T, a, b: T.xlog1py(a, b), real(3), positive(3), oracle=False)
add(
    "fmax-nan",
    lambda T, a, b: T.fmax(a, b) + T.fmin(a, b),
    np.array([1.0, math.nan]),
    np.array([math.nan, 2.0]),
    order=0,
)
add("fmax-ties", lambda T, a, b: T.fmax(a, b) * 2 + T.fmin(a, b), np.array([1.0, 3.0]), np.array([1.0, 2.0]), order=0)
add("logaddexp2", two("logaddexp2"), real(3), real(2, 3))
add("ldexp", two("ldexp"), real(3), real(3))
add("rsub", lambda T, a, b: T.rsub(a, b, alpha=2), real(3), real(3))
add("float_power", lambda T, x: T.float_power(x, 2.5), positive(3), float32=False)
add("signbit", lambda T, x: (T.signbit(x), T.isreal(x)), np.array([-0.0, 0.0, -2.0, 1.0]), order=0)
add("isinf", lambda T, x: (T.isposinf(x), T.isneginf(x)), np.array([math.inf, -math.inf, 1.0, math.nan]), order=0)
add("isreal", lambda T, x: T.isreal(x), np.array([1 + 0j, 1j]), order=0)
add(
    "isclose",
    lambda T, a, b: (
        T.isclose(a, b),
        T.isclose(a, b, equal_nan=True),
        T.tensor(T.allclose(a, b)),
        T.tensor(T.allclose(a, a * 1)),
    ),
    np.array([1.0, math.inf, math.nan, 2.0]),
    np.array([1.0 + 1e-9, math.inf, math.nan, 2.1]),
    order=0,
)

add = family("predicates")
add(
    "shifts",
    lambda T, a, b: (T.bitwise_left_shift(a, b), a.bitwise_right_shift(b)),
    ints(9, 4) - 4,
    ints(3, 4),
    order=0,
)
add("heaviside", lambda T, a, b: T.heaviside(a.detach(), b.detach()), np.array([-1.0, 0.0, 2.0]), real(3), order=0)
add("heaviside-int", lambda T, a, b: a.heaviside(b), np.array([-1, 0, 2]), ints(5, 3), order=0)
add("nextafter", lambda T, a, b: T.nextafter(a.detach(), b.detach()), real(3), real(3), order=0)
add("argwhere", one("argwhere"), ints(2, 2, 3), order=0)
add(
    "answers",
    lambda T, a, b: [
        T.tensor(answer)
        for answer in (
            T.equal(a, b),
            T.equal(a, a),
            T.equal(a, a[0]),
            T.numel(a),
            T.is_floating_point(a),
            a[0, 0].is_nonzero(),
            T.is_same_size(a, b),
            T.is_tensor(a),
            T.is_tensor(3.0),
            T.is_signed(a),
        )
    ],
    ints(3, 2, 3),
    ints(3, 2, 3) + 1,
    order=0,
)
