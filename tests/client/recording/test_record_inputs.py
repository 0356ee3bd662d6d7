"""What records read: leaves that are entered once while they stay as they are, and values of other sessions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.modes import state


def test_a_leaf_is_entered_again_once_it_was_written_to() -> None:
    with rg.Session(workers=1) as session:
        recorder = session._recorder
        x = rg.tensor([1.0, 2.0])
        first = recorder.leaf(x)
        assert recorder.leaf(x) is first
        with rg.no_grad():
            x.add_(1.0)
        assert recorder.leaf(x) is not first
        assert (x * 1.0).tolist() == [2.0, 3.0]


def test_arrays_that_somebody_may_write_to_are_read_as_they_are_when_recorded() -> None:
    with rg.Session(workers=1):
        array = np.ones(3)
        y = rg.from_numpy(array) * 2.0
        array[:] = 7.0
        assert y.tolist() == [2.0, 2.0, 2.0]


def test_a_gradient_that_was_read_in_a_closed_session_is_added_to_in_the_next():
    w = rg.tensor([1.0, 2.0], requires_grad=True)
    for factor in (2, 3):
        with rg.Session():
            (w * factor).sum().backward()
            grad: Any = w.grad
            assert grad.tolist() == ([2.0, 2.0] if factor == 2 else [5.0, 5.0])


def test_a_gradient_of_another_open_session_is_not():
    w = rg.tensor([1.0, 2.0], requires_grad=True)
    with rg.Session():
        (w * 2).sum().backward()
        with rg.Session(), pytest.raises(rg.errors.SessionError, match="another session"):
            (w * 3).sum().backward()


def test_specs_of_arrays_are_known_by_shape_dtype_and_strides() -> None:
    with rg.Session(workers=1) as session:
        array = np.ones((3, 3))
        for other in (np.ones((4, 3)), np.ones((3, 3), np.int64), np.ones((3, 3), order="F")):
            for one in (array, other, array):
                spec = session._recorder.inputs.source(one).spec.spec
                assert (spec.shape, spec.dtype) == (one.shape, one.dtype.name)
                assert spec.layout == ((0, 1) if one.flags.c_contiguous else (1, 0), ())


def test_a_leaf_is_entered_in_each_session() -> None:
    x = rg.tensor([1.0, 2.0])
    with rg.Session(workers=1) as session, rg.Session(workers=1) as other:
        first = session._recorder.leaf(x)
        second = other._recorder.leaf(x)
        assert (first.record.recorder, second.record.recorder) == (session._recorder, other._recorder)


def test_a_leaf_that_was_changed_outside_the_session_is_entered_anew() -> None:
    x = rg.tensor([1.0, 2.0])
    with rg.Session(workers=1) as session:
        recorder = session._recorder
        before = recorder.leaf(x)
        assert recorder.leaf(x) is before
        state.recorder = None
        try:
            x.add_(1.0)
        finally:
            state.recorder = recorder
        assert recorder.leaf(x) is not before
        assert (x * 1.0).tolist() == [2.0, 3.0]
