"""The family of ops in `ops/reduce.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ..check import compare_at


@pytest.mark.oracle
@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, 4])
def test_norms_at_zero_as_torch(p: float):
    torch: Any = pytest.importorskip("torch")
    compare_at(lambda T, x: x.norm(p=p), np.zeros(3), torch, order=2 if p >= 2 else 1)
    compare_at(lambda T, x: x.norm(p=p, dim=1), np.array([[0.0, 0.5], [1.0, -2.0], [0.0, 0.0]]), torch, order=1)


@pytest.mark.oracle
def test_logsumexp_of_nothing_but_minus_infinity_as_torch():
    torch: Any = pytest.importorskip("torch")
    compare_at(lambda T, x: x.logsumexp(1), np.array([[-np.inf, -np.inf], [0.0, -np.inf]]), torch, order=1)


@pytest.mark.parametrize("library", ["raygrad", pytest.param("torch", marks=pytest.mark.oracle)])
def test_results_over_some_axes_lie_row_by_row(library: str) -> None:
    T: Any = pytest.importorskip(library)
    turned = T.tensor(np.arange(24.0).reshape(4, 3, 2)).permute(2, 1, 0)
    for name in ("sum", "mean", "prod", "amax", "cumsum", "std", "logsumexp"):
        assert getattr(turned, name)(1).is_contiguous(), name
