"""The two layouts that exist, and how others become one of them (H1)."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.array_layout import as_dense, is_array, is_dense_or_expanded

BASE = np.arange(120.0).reshape(2, 3, 4, 5)

PLAIN = {
    "dense": BASE,
    "transposed": BASE.T,
    "axes moved": BASE.transpose(2, 0, 3, 1),
    "zero-dimensional": np.array(3.0),
    "empty": BASE[:, :0, ::2],
    "one element": BASE[1:2, 1:2, 1:2, 1:2],
    "expanded scalar": np.broadcast_to(np.array(1.0), (3, 4)),
    "expanded row": np.broadcast_to(BASE[0, 0, 0], (4, 5)),
    "expanded in the middle": np.broadcast_to(BASE[0, :, None].transpose(3, 1, 0, 2), (5, 7, 3, 4)),
    "a dense part": BASE[1],
}
OTHER = {
    "sliced": BASE[..., ::2],
    "cut": BASE[:, 1:],
    "a column": BASE[0, 0, :, 0],
    "reversed": BASE[::-1],
    "reversed vector": np.arange(4.0)[::-1],
    "windows": np.lib.stride_tricks.sliding_window_view(np.arange(6.0), 3),
    "expanded slice": np.broadcast_to(np.arange(8.0)[::2], (3, 4)),
    "diagonal": np.diagonal(BASE[0, 0, :4, :4]),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_arrays_stay_as_they_are(name):
    assert is_dense_or_expanded(PLAIN[name])
    assert as_dense(PLAIN[name]) is PLAIN[name]


@pytest.mark.parametrize("name", OTHER)
def test_other_arrays_become_dense_in_their_own_axis_order(name):
    array = OTHER[name]
    assert not is_dense_or_expanded(array)
    copy = as_dense(array)
    assert is_dense_or_expanded(copy)
    np.testing.assert_array_equal(copy, array)
    assert copy.dtype == array.dtype


def test_the_axis_order_is_kept():
    copy = as_dense(BASE.transpose(3, 1, 0, 2)[::2])
    order = sorted(range(4), key=lambda axis: -copy.strides[axis])
    assert order == [2, 1, 3, 0]


def test_expanded_axes_stay_expanded():
    copy = as_dense(OTHER["expanded slice"])
    assert copy.strides == (0, 8)


def test_h1_a_reduction_does_not_see_how_its_input_was_sliced():
    rng = np.random.default_rng(0)
    x = rg.tensor(rng.normal(size=(400, 300)))
    w = rg.tensor(rng.normal(size=(300, 200)))
    product = x @ w
    for view in (product[::2], product[:, ::3], product[1:, 1:].T[::2]):
        compact = rg.tensor(view.numpy().copy(order="K"))
        assert view.sum().item().hex() == compact.sum().item().hex()
        np.testing.assert_array_equal(view.mean(1).numpy(), compact.mean(1).numpy())
        np.testing.assert_array_equal((view.T @ view).numpy(), (compact.T @ compact).numpy())


def test_what_is_an_array():
    assert is_array(BASE)
    assert not is_array(3.0)
    assert not is_array(np.float64(3))
