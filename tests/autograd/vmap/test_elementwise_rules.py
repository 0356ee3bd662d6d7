"""Elementwise ops: the examples stay apart, whatever broadcasts with what."""

from __future__ import annotations

import pytest

import raygrad as rg

from .agree import agree, values


@pytest.mark.parametrize("in_dims", [(0, 0), (1, 0), (0, None), (None, 0)])
def test_examples_of_different_rank_broadcast(in_dims: tuple[int | None, int | None]):
    a = values(3, 3) if in_dims[0] is not None else values(3)
    b = values(3, 2, 3) if in_dims[1] is not None else values(2, 3)
    agree(lambda x, y: (x * y + x, rg.maximum(x, y), x > y), a, b, in_dims=in_dims)


def test_an_example_without_dimensions_meets_one_with_some():
    agree(lambda x, y: x + y, values(3), values(3, 3))


def test_examples_stay_where_they_lie_in_ops_of_one_operand():
    assert rg.vmap(lambda x: x.exp(), in_dims=1, out_dims=1)(rg.tensor(values(2, 3))).shape == (2, 3)
    agree(lambda x: rg.exp(x).sin(), values(2, 3), in_dims=(1,))


def test_choosing_by_a_mask():
    agree(lambda m, a, b: rg.where(m > 0, a, b), values(3, 2), values(3, 1), values(2), in_dims=(0, 0, None))
    agree(lambda x, m: x.masked_fill(m > 0, 7.0), values(3, 2), values(3, 4, 2))
    agree(lambda x, m, v: rg.masked_fill(x, m > 0, v), values(3, 2), values(4, 2), values(3), in_dims=(0, None, 0))


def test_dtypes_meet_as_those_of_one_example_do():
    half = rg.tensor(values(3)).float()
    out = rg.vmap(lambda x, y: x + y)(half, rg.tensor(values(3)))  # both without dimensions for each example
    assert out.dtype == rg.float64
    out = rg.vmap(lambda x, y: x + y)(rg.tensor(values(3, 2)).float(), rg.tensor(values(3)))
    assert out.dtype == rg.float32
