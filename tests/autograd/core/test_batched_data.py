"""Batched data and the levels of vmap (VM-17, FT-10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.batched_data import (
    Batched,
    VmapLevel,
    innermost_data,
    innermost_vmap_level,
    open_vmap_level,
    outside_vmap_level,
    unwrap_batched,
    without_closed_levels,
)
from raygrad.autograd.core.modes import state
from raygrad.autograd.vmap import batched
from raygrad.errors import NoSingleValue


def test_a_batched_tensor_has_the_shape_of_one_example():
    with open_vmap_level(VmapLevel(3)) as level:
        x = batched(rg.zeros(2, 3, 4), 1, level)
        assert (x.shape, x.ndim, x.dtype, x.numel(), len(x)) == ((2, 4), 2, rg.float32, 8, 2)
        assert x._data.size == 8
        assert "batched" in repr(x)


def test_levels_nest_and_close():
    outer, inner = VmapLevel(3), VmapLevel(4)
    with open_vmap_level(outer):
        a = batched(rg.zeros(3, 4), 0, outer)
        with open_vmap_level(inner):
            b = batched(a, 0, inner)
            assert innermost_vmap_level([a, b, 1]) is inner
            assert unwrap_batched(b, inner) == (a, 0)
            assert unwrap_batched(a, inner)[1] is None
            assert type(innermost_data(b._data)) is np.ndarray
            with outside_vmap_level(inner):
                assert state.batches == (outer,)
            assert state.batches == (outer, inner)
        assert without_closed_levels(b) is a
    assert not state.batches
    assert not state.special
    assert without_closed_levels(b).shape == (3, 4)


def test_a_value_that_outlives_its_level_stands_for_all_examples():  # FT-10
    kept: list[Any] = []
    rg.vmap(lambda x: kept.append(x * 2) or x)(rg.ones(3, 2))
    (dead,) = kept
    assert dead.shape == (3, 2)
    np.testing.assert_array_equal(dead.numpy(), np.full((3, 2), 2.0))
    np.testing.assert_array_equal((dead + 1).numpy(), np.full((3, 2), 3.0))


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda x: x.sum().item(), "item() on a Tensor"),
        (lambda x: float(x.sum()), "item() on a Tensor"),
        (lambda x: x.tolist(), "item() on a Tensor"),
        (lambda x: 1 if x.sum() > 0 else 2, "data-dependent control flow"),
        (lambda x: x.numpy(), "numpy()"),
        (lambda x: np.asarray(x), "numpy()"),
        (lambda x: x[x > 0], "dynamic shape"),
    ],
)
def test_one_value_cannot_be_read_of_many(read: Any, words: str):  # VM-17
    with pytest.raises(RuntimeError) as caught:
        rg.vmap(read)(rg.ones(3, 2))
    assert words in str(caught.value)
    assert not state.batches


def test_the_error_is_one_that_code_can_tell_apart():
    with pytest.raises(NoSingleValue):
        rg.vmap(lambda x: x.item())(rg.ones(3))


def test_a_level_is_data():
    assert repr(Batched(rg.zeros(3, 2), 0, VmapLevel(3)))  # of a level that is not open
