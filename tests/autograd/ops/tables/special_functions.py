"""The functions of `raygrad.special` that stand in `autograd/ops/special`."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..inputs import family, ints, positive, real, unit


def special(name: str) -> Any:
    return lambda T, *args: getattr(T.special, name)(*args)


def without_gradient(name: str) -> Any:
    return lambda T, *args: getattr(T.special, name)(*[x.detach() for x in args])


ENDS = np.array([-math.inf, -30.0, -1.0, 0.0, 1e-9, 0.5, 1.0, 30.0, math.inf, math.nan])

add = family("bessel")
for _name in ("i0", "i0e", "i1", "i1e"):
    add(_name, special(_name), real(2, 3))
    add(f"{_name}-zero", special(_name), np.array([0.0, 1.0]), order=0 if _name == "i1e" else 1)  # which has a bend
    add(f"{_name}-ends", special(_name), ENDS, order=0)
for _name in (
    "bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 "
    "scaled_modified_bessel_k1 spherical_bessel_j0 airy_ai"
).split():
    add(_name, special(_name), positive(2, 3), oracle=False)
    add(f"{_name}-values", without_gradient(_name), np.linspace(-2, 2.9, 23), order=0)  # torch loses digits above 3
add("bessel_j1-zero", special("bessel_j1"), np.array([0.0, 1.0]), order=1, oracle=False)
add("spherical-zero", special("spherical_bessel_j0"), np.array([0.0, 1.0]), order=1, oracle=False)
add("of-integers", lambda T, n: (T.i0(n), T.special.bessel_j0(n)), ints(5, 3), order=0)

add = family("distributions")
for _name in ("erfcx", "ndtr", "log_ndtr"):
    add(_name, special(_name), real(2, 3))
    add(f"{_name}-ends", special(_name), ENDS, order=0)
add("entr", special("entr"), positive(2, 3))
add("entr-ends", special("entr"), ENDS, order=0)
add("ndtri", special("ndtri"), positive(2, 3) * 0.3)
add("ndtri-ends", special("ndtri"), np.array([-0.1, 0.0, 1e-12, 0.5, 1.0, 1.1]), order=0)
for _name in ("gammainc", "gammaincc"):
    add(_name, lambda T, a, x, n=_name: getattr(T.special, n)(a.to(x.dtype), x), ints(4, 2, 3) + 1, positive(3))
    add(f"{_name}-values", without_gradient(_name), positive(2, 3), positive(3) * 4, order=0)
add("zeta", lambda T, q: T.special.zeta(T.tensor(2.5, dtype=q.dtype), q), positive(2, 3))
add("zeta-integers", special("zeta"), ints(4, 3) + 2, ints(5, 2, 1) + 1, order=0)

add = family("polynomials")
for _name in (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h "
    "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t "
    "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w"
).split():
    add(
        _name,
        lambda T, x, n, f=_name: (
            getattr(T.special, f)(x.detach(), n),
            getattr(T.special, f)(x.detach(), 3),
            getattr(T.special, f)(x.detach(), n.double() + 0.5),
        ),
        np.concatenate([unit(4), [-1.0, 0.0, 1.0]]),
        np.arange(-1, 11).reshape(12, 1),
        order=0,
    )
