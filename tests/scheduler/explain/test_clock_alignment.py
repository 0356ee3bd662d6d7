"""Offsets between clocks, narrowed by what cannot be otherwise."""

from __future__ import annotations

from hypothesis import given, strategies as st

from raygrad.proto.ir.program import Record, Timing
from raygrad.scheduler.explain.clock_alignment import ClockOffset
from raygrad.scheduler.model.measured_costs import TimedRecord


def called(*, sent: float, began: float, seconds: float, came: float) -> TimedRecord:
    """Return a call that took so long by its worker's clock."""
    record = Record(
        0, 0, 0, "worker 0", 1, 0.0, "done", (), (), (), (), (), (), (), timing=Timing(began, steps=seconds)
    )
    return TimedRecord(record, sent, came)


def test_equal_clocks_need_no_offset():
    offset = ClockOffset()
    assert offset.seconds == 0.0
    offset.saw(called(sent=1.0, began=1.5, seconds=0.5, came=2.5))
    assert offset.seconds == 0.0


@given(st.floats(10.0, 1e6), st.lists(st.tuples(*[st.floats(0.0, 5.0)] * 3), min_size=1, max_size=5))
def test_a_clock_that_is_ahead_is_set_back_within_what_calls_allow(ahead: float, calls: list[tuple[float, ...]]):
    offset = ClockOffset()
    for there, work, back in calls:
        offset.saw(called(sent=0.0, began=there + ahead, seconds=work, came=there + work + back))
    slack = min(there for there, _, _ in calls) + min(back for _, _, back in calls)
    assert abs(offset.seconds + ahead) <= slack / 2 + 1e-6
