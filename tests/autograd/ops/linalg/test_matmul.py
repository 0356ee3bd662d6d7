"""The family of ops in `ops/linalg/matmul.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize("library", ["raygrad", pytest.param("torch", marks=pytest.mark.oracle)])
@pytest.mark.parametrize(
    ("left", "right", "position", "allowed"),
    [
        ((2, 3), (3, 2), 0, False),
        ((3,), (3, 2), 0, True),
        ((3,), (3, 2), 1, False),
        ((4, 2, 3), (3, 2), 0, True),
        ((4, 2, 3), (3, 2), 1, False),
        ((4, 2, 3), (4, 3, 2), 1, True),
        ((3,), (4, 3, 2), 0, False),
        ((2, 3), (4, 3, 2), 0, True),
    ],
)
def test_cx_32_operands_of_which_views_are_saved_may_be_detached_in_place(
    library: str, left: Any, right: Any, position: int, allowed: bool
) -> None:
    T: Any = pytest.importorskip(library)
    leaves = [T.tensor(np.ones(shape), requires_grad=True) for shape in (left, right)]
    operands = [leaf * 2 for leaf in leaves]
    product = T.matmul(*operands)
    operands[position].detach_()
    if allowed:
        product.sum().backward()
        assert leaves[position].grad is not None
    else:
        with pytest.raises(RuntimeError, match="detached in-place"):
            product.sum().backward()
