"""The family of ops in `ops/extremes.py`."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from .cases import FAMILIES
from .check import Case, check, compare

CASES = FAMILIES["extremes"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_shapes_dtypes_and_layouts(case: Case):
    check(case)


@pytest.mark.oracle
@pytest.mark.parametrize("case", [c for c in CASES if c.oracle], ids=str)
def test_same_as_torch(case: Case):
    torch: Any = pytest.importorskip("torch")
    compare(case, torch)


def test_sorting_keeps_the_order_of_equals():
    x = rg.tensor([1, 0, 1, 0])
    assert x.argsort().tolist() == [1, 3, 0, 2]
    assert x.argsort(descending=True).tolist() == [0, 2, 1, 3]


def test_topk_of_more_than_there_is():
    with pytest.raises(RuntimeError, match="k out of range"):
        rg.ones(2).topk(3)
