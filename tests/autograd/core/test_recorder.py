"""What autograd tells a session: pending values and their lifetimes."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.core.recorder import AbstractNodeRecord, Pending, Recorder


class Recording:
    """What pending values see of their recorder."""

    residual_bit = 1

    def __init__(self) -> None:
        self.dropped: deque[tuple[int, int]] = deque()


def record_of(recorder: Any) -> AbstractNodeRecord:
    record = AbstractNodeRecord(recorder)
    record.live = 0b11
    return record


def test_a_pending_value_knows_what_can_be_known():
    value = Pending(record_of(Recording()), 0, (2, 3), np.dtype(np.float32), spec=None)
    assert (value.shape, value.ndim, value.size) == ((2, 3), 2, 6)
    assert value.defined is True
    assert "shape=(2, 3)" in repr(value)
    assert Pending(record_of(Recording()), 0, (), np.dtype(np.int64), spec=None).size == 1


def test_its_record_notes_when_the_last_holder_releases_it():
    recorder = Recording()
    record = record_of(recorder)
    value = Pending(record, 1, (), np.dtype(np.float64), spec=None)
    other = value
    del value
    assert record.live == 0b11
    del other
    assert record.live == 0b01
    assert not recorder.dropped


def test_the_recorder_drops_a_submitted_value_without_holders():
    recorder = Recording()
    record = record_of(recorder)
    record.run, record.base = 5, 40
    Pending(record, 1, (), np.dtype(np.float64), spec=None)
    assert list(recorder.dropped) == [(5, 41)]


def test_a_record_notes_which_outputs_are_retained_where_that_matters():
    recorder = Recording()
    record = record_of(recorder)
    record.retained(1)
    assert record.saved == 0b10
    recorder.residual_bit = 0
    record.retained(0)
    assert record.saved == 0b10


def test_a_recorder_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Recorder()  # type: ignore[abstract]
