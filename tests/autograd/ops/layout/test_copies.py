"""Copies of views, and `as_strided_scatter`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ..check import compare_at

X = np.random.default_rng(0).normal(size=(4, 3))

CALLS = """
    select_copy(x, 1, 2)|slice_copy(x, 0, 1, 4, 2)|slice_copy(x, 1)|split_copy(x, 3)[1]|view_as_real_copy(x + 0j)
    view_as_complex_copy(T.stack([x[0], x[1]], -1).detach())
    as_strided_scatter(x * 1, x[:2, :2] * 2, (2, 2), (1, 3))
    as_strided_scatter(x, x[0] * 2, (3,), (4,), 2)|x.as_strided_scatter(x[0] * 2, (3,), (4,))
    nn.functional.affine_grid(x[None, :2] * 1, (1, 1, 3, 4), align_corners=False)
    nn.functional.affine_grid(x[None, :2] * 1, (1, 1, 2, 2), align_corners=True)
    nn.functional.affine_grid(x.T[None] * 1, (1, 1, 2, 3, 2), False)
    nn.functional.lp_pool3d(x[None, None].abs(), 2, (1, 2, 2))
"""


@pytest.mark.oracle
@pytest.mark.parametrize("call", [call.strip() for line in CALLS.strip().splitlines() for call in line.split("|")])
def test_as_torch(call: str):
    torch: Any = pytest.importorskip("torch")
    whole = call if call.startswith("x.") else f"T.{call}"

    def run(T: Any, x: Any) -> Any:  # times the point: torch errs where the gradient of a scatter is expanded
        out = eval(whole, {"T": T, "x": x})
        return out * x.detach() if "scatter" in call else out

    compare_at(run, X, torch, order=int("complex" not in call))
