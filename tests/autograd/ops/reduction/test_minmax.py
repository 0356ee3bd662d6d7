"""The family of ops in `ops/extremes.py`."""

from __future__ import annotations

import pytest

import raygrad as rg


def test_sorting_keeps_the_order_of_equals():
    x = rg.tensor([1, 0, 1, 0])
    assert x.argsort().tolist() == [1, 3, 0, 2]
    assert x.argsort(descending=True).tolist() == [0, 2, 1, 3]


def test_topk_of_more_than_there_is():
    with pytest.raises(RuntimeError, match="k out of range"):
        rg.ones(2).topk(3)


def test_equal_elements_keep_their_order_when_sorted_downwards() -> None:
    places = rg.sort(rg.tensor([1.0, 0.0] * 100), descending=True)[1]
    assert places.tolist() == [*range(0, 200, 2), *range(1, 200, 2)]
