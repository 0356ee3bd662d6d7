"""Copies of views, and `as_strided_scatter`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import gradcheck

from ..check import compare_at

X = np.random.default_rng(0).normal(size=(4, 3))

CALLS = """
    select_copy(x, 1, 2)|slice_copy(x, 0, 1, 4, 2)|slice_copy(x, 1)|split_copy(x, 3)[1]|view_as_real_copy(x + 0j)
    nn.functional.affine_grid(x[None, :2] * 1, (1, 1, 3, 4), align_corners=False)
    nn.functional.affine_grid(x[None, :2] * 1, (1, 1, 2, 2), align_corners=True)
    nn.functional.affine_grid(x.T[None] * 1, (1, 1, 2, 3, 2), False)
    nn.functional.lp_pool3d(x[None, None].abs(), 2, (1, 2, 2))
"""


@pytest.mark.oracle
@pytest.mark.parametrize("call", [call.strip() for line in CALLS.strip().splitlines() for call in line.split("|")])
def test_as_torch(call: str):
    torch: Any = pytest.importorskip("torch")
    compare_at(lambda T, x: eval(f"T.{call}", {"T": T, "x": x}), X, torch, order=1)


@pytest.mark.oracle
@pytest.mark.parametrize("place", [((2, 2), (1, 3)), ((2, 2), (3, 1), 4), ((2, 2), (4, 2))])
def test_scatters_as_torch(place: Any):
    torch: Any = pytest.importorskip("torch")
    found, expected = (T.as_strided_scatter(T.tensor(X), T.tensor(X)[:2, :2] * 2, *place).numpy() for T in (rg, torch))
    np.testing.assert_array_equal(found, expected)
    assert np.array_equal(rg.tensor(X).as_strided_scatter(rg.tensor(X)[:2, :2] * 2, *place).numpy(), found)


def test_a_scatter_has_the_gradient_of_what_is_kept_and_of_what_is_put():
    """PyTorch gives the input the gradient of what is overwritten, which its own gradcheck refuses."""
    x, src = (rg.tensor(data, requires_grad=True) for data in (X, X[0]))
    assert gradcheck(lambda x, src: rg.as_strided_scatter(x, src, (3,), (4,)), (x, src))
    with pytest.raises(RuntimeError, match="size equal to the slice"):
        rg.as_strided_scatter(x, src, (2,), (4,))
    with pytest.raises(RuntimeError, match="out of bounds"):
        rg.as_strided_scatter(x, src, (3,), (9,))
    with pytest.raises(RuntimeError):
        rg.as_strided_scatter(x, src, (3,), (0,))
