"""Records count their holders."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.recorder import FEW_OUTPUTS, Pending
from raygrad.client.recording.records import NodeRecord, SpecEntry
from raygrad.client.submission.submission import is_stored
from raygrad.proto.ir.specs import ArraySpec

from ...graph_nodes import op_node


def test_an_output_is_live_while_somebody_holds_it() -> None:
    with rg.Session(workers=1):
        y = rg.tensor([1.0]) * 2.0
        record: NodeRecord = y._data.record
        assert record.live == 1
        del y
        gc.collect()
        assert record.live == 0


def test_records_of_one_submission_do_not_hold_each_other_alive() -> None:
    with rg.Session(workers=1):
        x: Any = rg.tensor([1.0])
        y = x * 2.0
        record: NodeRecord = y._data.record
        z = y + 1.0
        del y
        assert record.live == 0
        assert z.numpy().tolist() == [3.0]


def test_what_was_submitted_is_held_while_a_later_node_reads_it() -> None:
    with rg.Session(workers=1):
        y = rg.tensor([1.0]) * 2.0
        y.numpy()
        record: NodeRecord = y._data.record
        z = y + 1.0
        del y
        assert record.live == 1
        assert z.numpy().tolist() == [3.0]
        assert record.live == 0


def test_a_leaf_is_sent_as_it_was_when_recorded() -> None:
    with rg.Session(workers=1):
        x = rg.tensor([1.0, 2.0])
        y = x * 2.0
        x.numpy()[0] = 100.0
        z = x * 2.0
        assert y.numpy().tolist() == [2.0, 4.0]
        assert z.numpy().tolist() == [200.0, 4.0]


def record_of_many() -> NodeRecord:
    """Return a record of some session; tests say themselves who holds which of its outputs."""
    recorder: Any = SimpleNamespace(residual_bit=1)
    log: Any = SimpleNamespace(recorder=recorder)
    return NodeRecord(log, op_node("unbind"), (), (), None)


@pytest.mark.parametrize("others", [(0, FEW_OUTPUTS - 1, FEW_OUTPUTS, FEW_OUTPUTS + 1, 100_000), (FEW_OUTPUTS,), (5,)])
def test_any_output_is_held_until_it_is_released_and_found_to_be_retained(others: tuple[int, ...]) -> None:
    record = record_of_many()
    assert not record.live
    for index in reversed(others):
        record.hold(index)
        record.hold(index)
    assert record.held_outputs() == list(others)
    for count, index in enumerate(others, 1):
        assert record.live
        Pending(record, index, (), np.dtype(np.float64), spec=None)  # is gone at once
        record.release(index)
        assert record.held_outputs() == list(others[count:])
    assert not record.live
    assert not any(map(record.is_retained, others))
    record.retained(others[-1])
    assert [record.is_retained(index) for index in others] == [index == others[-1] for index in others]


@pytest.mark.parametrize("index", [0, FEW_OUTPUTS - 1, FEW_OUTPUTS, 1000])
def test_any_output_that_alone_is_retained_is_kept_in_the_store(index: int) -> None:
    record, entry = record_of_many(), SpecEntry(ArraySpec((2,), "float64"))
    assert not is_stored(record, index, entry)
    record.retained(index)
    assert is_stored(record, index, entry)
    assert not is_stored(record, index + 1, entry)


def test_what_a_record_costs_does_not_grow_with_its_outputs() -> None:
    record = record_of_many()
    for index in range(0, 1_000_000, 1000):
        record.hold(index)
        record.retained(index)
    assert record.live < 1 << FEW_OUTPUTS + 1
    assert record.saved < 1 << FEW_OUTPUTS + 1
