from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from raygrad.workers.code.array_form import base_of, copy_as_it_lies, form_of, formed

DTYPES = ("f8", ">f8", "i2", ">i4", "?", "c16", ">c8", "f2", "u1")


@st.composite
def views(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Views of any strides: steps, backwards, exchanged and repeated axes, windows, unaligned memory."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 5), min_size=0, max_size=3)))
    memory = np.zeros(int(np.prod(shape)) * dtype.itemsize + 1, np.uint8)
    memory[:] = np.arange(memory.size) % 2 if dtype.kind == "b" else np.arange(memory.size) % 97
    start = draw(st.integers(0, 1))
    array: Any = memory[start : start + memory.size - 1].view(dtype).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    array = array[tuple([slice(None, None, draw(st.sampled_from((1, 2, -1, -2)))) for _ in shape])]
    how = draw(st.sampled_from(("as it is", "repeated", "windows")))
    if how == "repeated":
        array = np.broadcast_to(array, (3, *array.shape))
    elif how == "windows" and array.ndim and array.shape[0] > 1:
        array = np.lib.stride_tricks.sliding_window_view(array, 2, axis=0)
    return array


@given(views())
def test_h1_an_array_is_laid_out_again_as_it_lay(array: np.ndarray[Any, Any]) -> None:
    base, form = base_of(array), form_of(array)
    assert form_of(base) is None
    for again in (formed(base, form), copy_as_it_lies(array)):
        assert (again.shape, again.dtype.str, again.tobytes()) == (array.shape, array.dtype.str, array.tobytes())
        if form is not None:
            assert (again.strides, again.flags.aligned) == (array.strides, array.flags.aligned)
            assert not np.may_share_memory(again, base)


def test_windows_travel_as_the_memory_that_they_span() -> None:
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(1000.0), 500)
    assert base_of(windows).nbytes == 8000
