"""First and second derivatives where functions bend, end, or have none: PyTorch's conventions (EN)."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .check import compare_at

LINE = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 0.5, -0.5, 3.0, 6.0])
GRID = np.stack([m.ravel() for m in np.meshgrid(LINE, LINE)])
ONE = """
    sign square reciprocal sqrt rsqrt exp expm1 exp2 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh
    asinh acosh atanh sigmoid relu erf erfc floor ceil trunc round frac logit sinc angle nan_to_num
""".split()
TWO = """
    mul div pow maximum minimum fmax fmin atan2 logaddexp hypot copysign xlogy remainder fmod float_power
""".split()
ROWS = np.array([[1.0, 2.0, 2.0], [0.0, 0.0, 0.0], [2.0, -1.0, 0.0]])
SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
RANK_ONE = np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 2.0])
PLANE = np.array([0j, 1 + 0j, -1 + 0j, 1j, -1j, 2 - 3j, 0.5 + 0j])

PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {
    **{name: (lambda T, x, name=name: getattr(T, name)(x), LINE) for name in ONE},
    **{name: (lambda T, x, name=name: getattr(T, name)(x[0], x[1]), GRID) for name in TWO},
    **{f"x ** {k}": (lambda T, x, k=k: x**k, LINE) for k in (0, 1, 2, -1, 3, 0.5, -0.5, -2.0, math.inf)},
    **{f"{k} ** x": (lambda T, x, k=k: k**x, LINE) for k in (0, 0.0, 1, 2.0, -1.0)},
    "xlog1py": (lambda T, x: (T if T is rg else T.special).xlog1py(x[0], x[1]), GRID),
    "logit with eps": (lambda T, x: T.logit(x, 0.2), LINE),
    "threshold": (lambda T, x: T.nn.functional.threshold(x, 0.0, 1.0), LINE),
    "clamp": (lambda T, x: T.clamp(x, 0.0, 1.0), LINE),
    **{f"norm {p}": (lambda T, x, p=p: T.linalg.vector_norm(x, p, 1), ROWS) for p in (0.5, 1.5, 2, 2.5, 3, 4, -1)},
    **{f"normalize {p}": (lambda T, x, p=p: T.nn.functional.normalize(x, p), ROWS) for p in (0.5, 1.5, 2.0, 3.0)},
    "norm 3 of complex": (lambda T, x: T.linalg.vector_norm(x, 3), PLANE),
    "prod": (lambda T, x: T.prod(x, 1), ROWS),
    "cumprod": (lambda T, x: T.cumprod(x, 1), ROWS),
    "std": (lambda T, x: T.std(x[1:], 1), ROWS),
    "logsumexp": (lambda T, x: T.logsumexp(x, 1), ROWS),
    "det": (lambda T, x: T.linalg.det(x), SINGULAR),
    "det of rank one": (lambda T, x: T.linalg.det(x[:2, :2]), RANK_ONE),
    "det of a number": (lambda T, x: T.linalg.det(x[:1, :1]), SINGULAR),
    "dets": (lambda T, x: T.linalg.det(T.stack((x, T.eye(3, dtype=T.float64) + x))), SINGULAR),
}
"""By name, a function and where its derivatives are compared."""


@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_at_singular_points_as_torch(name: str):
    torch: Any = pytest.importorskip("torch")
    run, point = PROGRAMS[name]
    with np.errstate(all="ignore"):
        compare_at(run, point, torch, order=1 if point.dtype.kind == "c" else 2)


@pytest.mark.parametrize("name", ["x ** 0", "0 ** x", "det", "norm 1.5", "logit", "sinc", "xlogy", "copysign"])
def test_a_session_gives_the_bits_of_the_eager_run(name: str):
    run, point = PROGRAMS[name]

    def outcome() -> list[bytes]:
        x = rg.tensor(point, requires_grad=True)
        (slope,) = rg.autograd.grad(run(rg, x).sum(), x, create_graph=True)
        (bend,) = rg.autograd.grad((slope * slope).sum() + (x * 0).sum(), x)
        return [slope.detach().numpy().tobytes(), bend.numpy().tobytes()]

    with rg.Session():
        recorded = outcome()
    assert recorded == outcome()


def test_the_second_derivative_of_a_determinant_of_zeros_is_that_of_a_polynomial():
    for size, want in ((1, 0.0), (2, 2.0), (3, 0.0)):
        x = rg.zeros(size, size, dtype=rg.float64, requires_grad=True)
        along = rg.eye(size, dtype=rg.float64)
        (slope,) = rg.autograd.grad(rg.linalg.det(x), x, create_graph=True)
        (bend,) = rg.autograd.grad((slope * along).sum(), x, allow_unused=True)
        assert (bend * along).sum().item() == pytest.approx(want, abs=1e-12)


def test_third_derivatives_of_determinants():
    x = rg.tensor([[2.0, 1.0, 0.5], [0.3, 1.5, 1.0], [0.2, 0.4, 1.1]], dtype=rg.float64, requires_grad=True)

    def bend(a: Any) -> Any:
        (slope,) = rg.autograd.grad(rg.linalg.det(a), a, create_graph=True)
        return rg.autograd.grad((slope * slope).sum(), a, create_graph=True)[0]

    assert rg.autograd.gradcheck(bend, (x,))
    z = (x.detach() + 0.3j * x.detach().t()).requires_grad_()
    assert rg.autograd.gradgradcheck(rg.linalg.det, (z,))


def test_the_number_of_elements_that_are_not_zero_has_a_gradient_of_zero():
    x = rg.tensor([1.0, 0.0], requires_grad=True)
    rg.linalg.vector_norm(x, 0).backward()
    assert x.grad is None or x.grad.tolist() == [0, 0]
