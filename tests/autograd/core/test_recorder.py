"""What autograd tells a session: pending values and their lifetimes."""

from __future__ import annotations

import numpy as np
import pytest

from raygrad.autograd.core.recorder import AbstractNodeRecord, Pending, Recorder


class Counting(AbstractNodeRecord):
    __slots__ = ("claims", "releases")

    def __init__(self) -> None:
        self.claims: list[int] = []
        self.releases: list[int] = []

    def released(self, index: int) -> None:
        self.releases.append(index)

    def retained(self, index: int) -> None:
        self.claims.append(index)


def test_a_pending_value_knows_what_can_be_known():
    value = Pending(Counting(), 0, (2, 3), np.dtype(np.float32), spec=None)
    assert (value.shape, value.ndim, value.size) == ((2, 3), 2, 6)
    assert value.defined is True
    assert "shape=(2, 3)" in repr(value)
    assert Pending(Counting(), 0, (), np.dtype(np.int64), spec=None).size == 1


def test_its_record_is_told_when_the_last_holder_lets_go():
    record = Counting()
    value = Pending(record, 1, (), np.dtype(np.float64), spec=None)
    other = value
    del value
    assert record.releases == []
    del other
    assert record.releases == [1]


def test_a_record_may_ignore_what_it_is_told():
    record = AbstractNodeRecord()
    record.retained(0)
    record.released(0)


def test_a_recorder_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Recorder()  # type: ignore[abstract]
