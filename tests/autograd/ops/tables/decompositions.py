"""LU, eigenvalues of general matrices, reflections, and the matrix functions that are names of the package."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

from typing import Any

import numpy as np

from ..inputs import family, real, unit
from .matrices import SQUARES, definite, regular, regular_complex

EACH = [*SQUARES, regular(3, 2), regular(2, 3), regular(2, 4, 2), regular_complex(2, 4), regular_complex(4, 2)]


def lower(a: Any) -> Any:
    """A triangular factor with a diagonal far from zero."""
    return a.tril()


add = family("lu")
for _n, _a in enumerate(EACH):
    add(f"lu-{_n}", lambda T, a: T.linalg.lu(a)[1:], _a)
    add(f"factor-{_n}", lambda T, a: T.linalg.lu_factor(a)[0], _a)
    add(f"discrete-{_n}", lambda T, a: (T.linalg.lu_factor_ex(a)[1:], T.linalg.lu(a)[0])[0], _a, order=0)
    add(f"unpacked-{_n}", lambda T, a: T.lu_unpack(*T.linalg.lu_factor(a))[1:], _a)
for _n, _a in enumerate(SQUARES[:3]):
    for _left in (True, False):
        for _adjoint in (True, False):
            add(
                f"solve-{_n}{_left}{_adjoint}",
                lambda T, a, b, left=_left, adjoint=_adjoint: T.linalg.lu_solve(
                    *T.linalg.lu_factor(a), b if left else b.mT, left=left, adjoint=adjoint
                ),
                _a,
                real(_a.shape[-1], 2),
            )
add("pivots-needed", lambda T, a: T.linalg.lu(a), np.array([[0.0, 2.0], [3.0, 1.0]]), order=0)
add("singular", lambda T, a: T.linalg.lu_factor_ex(a), np.array([[1.0, 2.0], [2.0, 4.0]]), order=0)
add("top", lambda T, a: (T.lu_solve(a, *T.lu(a)), a.lu()[0]), regular(2, 2), oracle=False)  # deprecated there
add("unpack-parts", lambda T, a: T.lu_unpack(*T.linalg.lu_factor(a), unpack_data=False)[0], regular(3, 2), order=0)
add("empty", lambda T, a: T.linalg.lu_factor(a)[0], np.zeros((2, 0, 0)), order=0)

add = family("eig")
for _n, _a in enumerate(SQUARES[:4]):
    add(f"values-{_n}", lambda T, a: T.linalg.eigvals(a), _a)
    add(f"vectors-{_n}", lambda T, a: [abs(part) * abs(part) for part in T.linalg.eig(a)], _a)
add("rotation", lambda T, a: T.linalg.eigvals(a).abs(), np.array([[1.0, -2.0], [2.0, 1.5]]))
add("complex", lambda T, a: T.linalg.eigvals(a), regular_complex(2, 2))

add = family("reflections")
for _a in (regular(3, 2), regular(2, 2), regular(2, 3, 2), regular_complex(3, 2)):
    _label = f"{list(_a.shape)}{_a.dtype.kind}"
    add(f"product{_label}", lambda T, a, t: T.linalg.householder_product(a, t.to(a.dtype)), _a, unit(*_a.shape[:-2], 2))
    for _left in (True, False):
        add(
            f"ormqr{_label}{_left}",
            lambda T, a, t, o, left=_left: (
                T.ormqr(a, t.to(a.dtype), o.to(a.dtype) if left else o.mT.to(a.dtype), left),
                T.ormqr(a, t.to(a.dtype), o.to(a.dtype) if left else o.mT.to(a.dtype), left, True),
            ),
            _a,
            unit(*_a.shape[:-2], 2),
            real(*_a.shape[:-1], 2),
        )
    add(f"geqrf{_label}", lambda T, a: T.geqrf(a.detach()), _a, order=0)

add = family("checked_factors")
for _n, _a in enumerate(SQUARES):
    add(f"cholesky-{_n}", lambda T, a: T.linalg.cholesky_ex(definite(T, a)), _a)
    add(f"inv-{_n}", lambda T, a: T.linalg.inv_ex(a), _a)
    add(f"solve-{_n}", lambda T, a: T.linalg.solve_ex(a, a * a), _a)
add("cholesky-failed", lambda T, a: T.linalg.cholesky_ex(a)[1], np.diag([1.0, 2.0, -1.0, 3.0]), order=0)
add("inv-failed", lambda T, a: T.linalg.inv_ex(a)[1], np.array([np.eye(2), np.ones((2, 2))]), order=0)
add("solve-vectors", lambda T, a, b: T.linalg.solve_ex(a, b), regular(2, 2), real(2))
add("solve-right", lambda T, a, b: T.linalg.solve_ex(a, b, left=False), regular(2, 2), real(3, 2))

add = family("top_level")  # oracle=False: what warns there that it is deprecated
for _n, _a in enumerate(SQUARES):
    add(f"cholesky-{_n}", lambda T, a: (T.cholesky(definite(T, a)), definite(T, a).cholesky(True)), _a, oracle=False)
    add(f"cholesky_inverse-{_n}", lambda T, a: T.cholesky_inverse(T.linalg.cholesky(definite(T, a))), _a)
    add(f"cholesky_solve-{_n}", lambda T, a, b: T.cholesky_solve(b.to(a.dtype), lower(a)), _a, real(_a.shape[-1], 2))
    add(f"upper-{_n}", lambda T, a, b: T.cholesky_solve(b.to(a.dtype), lower(a).mH, True), _a, real(_a.shape[-1], 2))
    add(
        f"triangular-{_n}",
        lambda T, a, b: T.triangular_solve(b.to(a.dtype), a)[0],
        _a,
        real(_a.shape[-1], 2),
        oracle=False,
    )
add(
    "triangular-turned",
    lambda T, a, b: T.triangular_solve(b, a, False, True, True)[0],
    regular(3, 3),
    real(3, 2),
    oracle=False,
)
for _a in (regular(3, 2), regular(2, 3), regular(3, 3)):
    add(f"qr{list(_a.shape)}", lambda T, a: tuple(T.qr(a)), _a, oracle=False)
    add(f"qr-complete{list(_a.shape)}", lambda T, a: T.linalg.qr(a, "complete"), _a, order=0)
    add(f"svd{list(_a.shape)}", lambda T, a: [abs(part) * abs(part) for part in T.svd(a)], _a)
add("svd-values", lambda T, a: tuple(T.svd(a.detach(), compute_uv=False)), regular(3, 2), order=0)
