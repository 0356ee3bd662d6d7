"""Records count their holders."""

from __future__ import annotations

import gc
from typing import Any

import raygrad as rg
from raygrad.client.recording.records import NodeRecord


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
