"""Extremes, sorting and order statistics."""

from __future__ import annotations

import importlib
import math
from typing import Any

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


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool", "complex128"])
@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian", "kthvalue"])
@pytest.mark.parametrize("library", ["raygrad", pytest.param("torch", marks=pytest.mark.oracle)])
def test_nothing_to_compare_along_a_dimension_is_told_before_the_dtype_is(library: str, name: str, dtype: str) -> None:
    T: Any = importlib.import_module(library)
    rank = (1,) if name == "kthvalue" else ()
    for shape, dim in (((0,), 0), ((0, 3), 0), ((3, 0), -1)):
        with pytest.raises(IndexError, match="non-zero size"):
            getattr(T, name)(T.zeros(shape, dtype=getattr(T, dtype)), *rank, dim)


@pytest.mark.parametrize("library", ["raygrad", pytest.param("torch", marks=pytest.mark.oracle)])
def test_the_median_of_nothing(library: str) -> None:
    T: Any = importlib.import_module(library)
    assert math.isnan(T.median(T.zeros(0, 3)).item())
    assert T.nanmedian(T.zeros(0, dtype=T.int32)).item() == -(2**31)
    x = T.zeros(0, requires_grad=True)
    T.median(x).backward()
    assert x.grad.shape == (0,)
