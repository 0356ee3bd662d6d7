"""The family of ops in `ops/rearranging.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .cases import FAMILIES
from .check import Case, check, compare

CASES = FAMILIES["rearranging"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_shapes_dtypes_and_layouts(case: Case):
    check(case)


@pytest.mark.oracle
@pytest.mark.parametrize("case", [c for c in CASES if c.oracle], ids=str)
def test_same_as_torch(case: Case):
    torch: Any = pytest.importorskip("torch")
    compare(case, torch)


@pytest.mark.parametrize("sections", [2, [1]])
def test_what_tensor_split_returns_are_slices_that_may_be_changed(sections: Any):
    x = rg.ones(2, 3, requires_grad=True)
    y = x * 2
    first, second = rg.tensor_split(y, sections)
    first.mul_(3)
    (first + second).sum().backward()
    assert x.grad is not None
    assert np.array_equal(x.grad.numpy(), [[6, 6, 6], [2, 2, 2]])
