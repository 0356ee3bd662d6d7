"""Matrices: factorizations, inverses, systems, determinants and norms."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..inputs import complex_, family, real


def regular(*shape: int) -> np.ndarray:
    """Matrices far from singular, their singular values far from each other."""
    n = min(shape[-2:])
    out = np.random.default_rng(sum(shape)).uniform(-0.4, 0.4, shape)
    out[..., range(n), range(n)] += np.arange(1, n + 1) * 1.3
    return out


def regular_complex(*shape: int) -> np.ndarray:
    return regular(*shape) + 1j * np.random.default_rng(5).uniform(-0.3, 0.3, shape)


def definite(T: Any, a: Any) -> Any:
    """A positive definite matrix made of any."""
    return a @ a.mH + T.eye(a.shape[-1], dtype=a.dtype)


def symmetric(a: Any) -> Any:
    return a + a.mH


SQUARES = [regular(2, 2), regular(3, 3), regular(2, 2, 2), regular(1, 1), regular_complex(2, 2)]

add = family("factorizations")
for _n, _a in enumerate(SQUARES):
    add(
        f"cholesky-{_n}",
        lambda T, a: (T.linalg.cholesky(definite(T, a)), T.linalg.cholesky(definite(T, a), upper=True)),
        _a,
    )
    add(f"eigvalsh-{_n}", lambda T, a: (T.linalg.eigvalsh(symmetric(a)), T.linalg.eigvalsh(symmetric(a), UPLO="U")), _a)
    add(f"eigh-{_n}", lambda T, a: [abs(part) * abs(part) for part in T.linalg.eigh(symmetric(a))], _a)
    add(f"svd-{_n}", lambda T, a: [abs(part) * abs(part) for part in T.linalg.svd(a, full_matrices=False)], _a)
for _a in (regular(3, 2), regular(2, 3), regular(2, 3, 2), regular_complex(3, 2), regular_complex(2, 3)):
    _label = f"{list(_a.shape)}{_a.dtype.kind}"
    add(f"svd{_label}", lambda T, a: [abs(part) * abs(part) for part in T.linalg.svd(a, full_matrices=False)], _a)
    add(f"svdvals{_label}", lambda T, a: T.linalg.svdvals(a), _a)
    add(f"qr{_label}", lambda T, a: tuple(T.linalg.qr(a)), _a)
    add(f"pinv{_label}", lambda T, a: T.linalg.pinv(a), _a)
add("svd-product", lambda T, a: (lambda u, s, v: (u * s) @ v)(*T.linalg.svd(a, full_matrices=False)), regular(3, 2))
add("qr-square", lambda T, a: (*T.linalg.qr(a), *T.linalg.qr(a, "complete")), regular(3, 3))
add("qr-r", lambda T, a: T.linalg.qr(a.detach(), "r")[1], regular(3, 2), order=0)

add = family("triangular")
for _upper in (False, True):
    add(
        f"solve_triangular-{_upper}",
        lambda T, a, b, u=_upper: (
            T.linalg.solve_triangular(a, b, upper=u),
            T.linalg.solve_triangular(a, b, upper=u, unitriangular=True),
            T.linalg.solve_triangular(a, b.mT, upper=u, left=False),
        ),
        regular(3, 3),
        real(3, 2),
    )
add(
    "solve_triangular-complex",
    lambda T, a, b: T.linalg.solve_triangular(a, b, upper=True),
    regular_complex(2, 2),
    complex_(2, 2),
)
add(
    "solve_triangular-batch", lambda T, a, b: T.linalg.solve_triangular(a, b, upper=False), regular(2, 2, 2), real(2, 3)
)

add = family("solving")
for _n, _a in enumerate(SQUARES):
    add(f"inv-{_n}", lambda T, a: T.linalg.inv(a), _a)
    add(f"det-{_n}", lambda T, a: T.linalg.det(a), _a)
    add(f"slogdet-{_n}", lambda T, a: tuple(T.linalg.slogdet(a)), _a)
add("det-slope", lambda T, x: T.func.grad(T.linalg.det)(x), real(2, 2))
add("det-singular", lambda T, a: T.linalg.det(a), np.array([[1.0, 2.0], [2.0, 4.0]]), oracle=False)
add(
    "solve",
    lambda T, a, b: (T.linalg.solve(a, b), T.linalg.solve(a, b[:, 0]), T.linalg.solve(a, b.mT, left=False)),
    regular(3, 3),
    real(3, 2),
)
add(
    "solve-batch", lambda T, a, b: (T.linalg.solve(a, b), T.linalg.solve(a, b[..., 0])), regular(2, 3, 3), real(2, 3, 2)
)
add("solve-complex", lambda T, a, b: T.linalg.solve(a, b), regular_complex(2, 2), complex_(2, 2))
add("pinv-square", lambda T, a: T.linalg.pinv(a, rtol=1e-10), regular(3, 3))
add(
    "lstsq",
    lambda T, a, b: (T.linalg.lstsq(a, b).solution, T.linalg.lstsq(a, b[:, 0]).solution),
    regular(4, 2),
    real(4, 2),
    oracle=False,
)
add(
    "lstsq-all",
    lambda T, a, b: (
        *T.linalg.lstsq(a.detach(), b.detach(), driver="gelsd"),
        *T.linalg.lstsq(a.detach(), b.detach(), driver="gels"),
        *T.linalg.lstsq(a.detach(), b.detach()),
    ),
    regular(4, 2),
    real(4, 2),
    order=0,
)
add("logdet", lambda T, a: T.logdet(a), regular(3, 3))
for _power in (-2, -1, 0, 1, 2, 3, 5):
    add(f"matrix_power{_power}", lambda T, a, n=_power: T.linalg.matrix_power(a, n), regular(2, 2))
add(
    "matrix_rank",
    lambda T, a: (T.linalg.matrix_rank(a), T.linalg.matrix_rank(a @ a.mT, hermitian=True)),
    np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]]),
    order=0,
)
add(
    "multi_dot",
    lambda T, a, b, c: (T.linalg.multi_dot((a, b, c)), T.linalg.multi_dot((a[0], b, c[:, 0]))),
    real(2, 3),
    real(3, 4),
    real(4, 2),
)
add("tensorinv", lambda T, a: T.linalg.tensorinv(a.reshape(2, 2, 4)), regular(4, 4))
add("tensorsolve", lambda T, a, b: T.linalg.tensorsolve(a.reshape(2, 2, 4), b), regular(4, 4), real(2, 2))

add = family("norms")
for _ord in (2, 1, 3, 0.5, math.inf, -math.inf):
    add(
        f"vector_norm{_ord}",
        lambda T, x, p=_ord: (T.linalg.vector_norm(x, p), T.linalg.vector_norm(x, p, dim=1, keepdim=True)),
        real(2, 3),
    )
for _ord in ("fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf):
    add(
        f"matrix_norm{_ord}",
        lambda T, a, p=_ord: (T.linalg.matrix_norm(a, p), T.linalg.matrix_norm(a, p, dim=(2, 0), keepdim=True)),
        regular(2, 3, 3),
    )
add(
    "norm",
    lambda T, a: (
        T.linalg.norm(a),
        T.linalg.norm(a, 1),
        T.linalg.norm(a, "fro"),
        T.linalg.norm(a, 3, dim=1),
        T.linalg.norm(a, "nuc", dim=(1, 0)),
    ),
    regular(3, 3),
)
add(
    "cond",
    lambda T, a: (T.linalg.cond(a), T.linalg.cond(a, -2), T.linalg.cond(a, 1), T.linalg.cond(a, "fro")),
    regular(3, 3),
    oracle=False,
)
add(
    "linalg-names",
    lambda T, a, b: (T.linalg.matmul(a, b), T.linalg.diagonal(a, dim1=0, dim2=1), T.linalg.cross(a, b)),
    regular(3, 3),
    real(3, 3),
)
add = family("solving")
add("methods", lambda T, a: (a.det(), a.inverse(), a.pinverse(), a.matrix_power(2), *a.slogdet(), a.mH), regular(3, 3))

add = family("matrix_exponential")
for _n, _a in enumerate(SQUARES):
    add(f"matrix_exp-{_n}", lambda T, a: T.linalg.matrix_exp(a), _a * 0.4)
add("matrix_exp-halved", lambda T, a: (T.matrix_exp(a * 0.05), a.matrix_exp() * 0.01), regular(3, 3) * 2, float32=False)
add("matrix_exp-zero", lambda T, a: T.matrix_exp(a), np.zeros((2, 2)))
