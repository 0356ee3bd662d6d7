"""The family of ops in `ops/rearranging.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg


@pytest.mark.parametrize("sections", [2, [1]])
def test_what_tensor_split_returns_are_slices_that_may_be_changed(sections: Any):
    x = rg.ones(2, 3, requires_grad=True)
    y = x * 2
    first, second = rg.tensor_split(y, sections)
    first.mul_(3)
    (first + second).sum().backward()
    assert x.grad is not None
    assert np.array_equal(x.grad.numpy(), [[6, 6, 6], [2, 2, 2]])
