"""Copies of views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
