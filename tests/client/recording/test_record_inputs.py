"""What records read: leaves that are entered once while they stay as they are, and values of other sessions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg


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
