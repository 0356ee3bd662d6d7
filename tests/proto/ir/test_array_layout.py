"""H1: which layouts exist, and that taking apart and rebuilding gives the same one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from raygrad.errors import ProtocolError
from raygrad.proto.ir.array_layout import dense, layout_of, rebuild, take_apart

CUBE = np.arange(24.0).reshape(2, 3, 4)

LAYOUTS = [
    ("C order", CUBE, ((0, 1, 2), ())),
    ("F order", np.asfortranarray(CUBE), ((2, 1, 0), ())),
    ("transposed", CUBE.transpose(1, 0, 2), ((1, 0, 2), ())),
    ("no axes", np.ones(()), ((), ())),
    ("empty", np.ones((0, 3)), ((0, 1), ())),
    ("empty and transposed", np.ones((0, 3)).T, ((0, 1), ())),
    ("empty and expanded", np.broadcast_to(np.ones((0, 1)), (0, 3)), ((0, 1), ())),
    ("expanded", np.broadcast_to(np.ones(4), (3, 4)), ((0, 1), (0,))),
    ("expanded inside", np.broadcast_to(np.ones((2, 1, 4)), (2, 5, 4)), ((0, 1, 2), (1,))),
    ("expanded from a transpose", np.broadcast_to(np.ones((4, 1, 2)).T, (2, 5, 4)), ((1, 2, 0), (1,))),
    ("expanded scalar", np.broadcast_to(np.ones(()), (3, 4)), ((0, 1), (0, 1))),
    ("an axis of one", CUBE[:, None], ((0, 1, 2, 3), ())),
    ("an axis of one inside a transpose", CUBE[:, None].transpose(3, 1, 2, 0), ((3, 1, 2, 0), ())),
    ("a slice of whole rows", CUBE[:1], ((0, 1, 2), ())),
    ("a slice with gaps", CUBE[:, :, ::2], None),
    ("a slice with gaps between rows", CUBE[:, :1], None),
    ("a negative stride", CUBE[::-1], None),
    ("windows that overlap", sliding_window_view(np.arange(5.0), 2), None),
    ("an expanded slice with gaps", np.broadcast_to(CUBE[:, :, ::2], (7, 2, 3, 2)), None),
]


@pytest.mark.parametrize(("array", "layout"), [case[1:] for case in LAYOUTS], ids=[case[0] for case in LAYOUTS])
def test_layout_of(array: np.ndarray, layout: Any):
    assert layout_of(array) == layout


def test_strides_of_axes_of_extent_one_do_not_matter():
    shape = (1, 5)
    same = [np.ones(shape), np.ones((5, 1)).T, np.ones(5)[None], as_strided(np.ones(5), shape, (8, 8))]
    assert {layout_of(array) for array in same} == {((0, 1), ())}
    swapped = CUBE[:, None].transpose(3, 1, 2, 0)
    assert layout_of(swapped) == layout_of(as_strided(swapped, swapped.shape, (8, 12345 * 8, 32, 96)))


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Views of all sorts: permuted, sliced, reversed, expanded, with axes of extent 0 and 1."""
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=4)))
    dtype = draw(st.sampled_from(["f4", "f8", "c16", "i1", "?", ">f4", "U3"]))
    array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in shape]
    array = array[(..., *(slice(None, None, step) for step in steps))]
    for _ in range(draw(st.integers(0, 2))):
        axis = draw(st.integers(0, array.ndim))
        array = np.expand_dims(array, axis)
        grown = list(array.shape)
        grown[axis] = draw(st.integers(1, 3))
        array = np.broadcast_to(array, tuple(grown))
    return array


@settings(deadline=None)
@given(arrays())
def test_what_is_taken_apart_is_rebuilt_exactly(array: np.ndarray):
    base, order, expanded = take_apart(array)
    assert base.flags.c_contiguous
    back = rebuild(base, array.shape, order, expanded)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert not back.flags.writeable
    assert layout_of(back) == (order, expanded)
    if layout_of(array) is not None:
        assert layout_of(array) == (order, expanded)
        assert np.shares_memory(base, array) or array.size == 0
        for mine, theirs, extent in zip(back.strides, array.strides, array.shape, strict=True):
            assert mine == theirs or extent == 1 or array.size == 0


@settings(deadline=None)
@given(arrays())
def test_dense_keeps_the_axis_order_and_the_expansion(array: np.ndarray):
    result = dense(array)
    assert np.array_equal(result, array)
    assert layout_of(result) is not None
    if layout_of(array) is not None:
        assert result is array
    elif array.size:
        repeated = [not s and n > 1 for s, n in zip(array.strides, array.shape, strict=True)]
        assert [not s and n > 1 for s, n in zip(result.strides, array.shape, strict=True)] == repeated

        def axis_order(of: np.ndarray) -> list[int]:
            strided = [axis for axis in range(of.ndim) if of.strides[axis] and of.shape[axis] > 1]
            return sorted(strided, key=lambda axis: -abs(of.strides[axis]))

        sizes = [abs(array.strides[axis]) for axis in axis_order(array)]
        if len(set(sizes)) == len(sizes):
            assert axis_order(result) == axis_order(array)


def test_dense_agrees_with_the_engine_about_which_arrays_are_plain():
    for _, array, layout in LAYOUTS:
        assert (dense(array) is array) == (layout is not None)


@pytest.mark.parametrize(
    ("shape", "order", "expanded", "says"),
    [
        ((2, 3), (0,), (), "does not name each of 2 axes once"),
        ((2, 3), (0, 0), (), "does not name each of 2 axes once"),
        ((2, 3), (0, 2), (), "does not name each of 2 axes once"),
        ((2, 3), (0, 1), (2,), "not increasing axes"),
        ((2, 3), (0, 1), (-1,), "not increasing axes"),
        ((2, 3), (0, 1), (1, 0), "not increasing axes"),
        ((2, 3), (0, 1), (0,), "does not hold 6 elements"),
        ((2, 4), (0, 1), (), "does not hold 6 elements"),
        ((1,) * 65, tuple(range(65)), (), "at most 64"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(shape: Any, order: Any, expanded: Any, says: str):
    with pytest.raises(ProtocolError, match=says):
        rebuild(np.ones(6), shape, order, expanded)
