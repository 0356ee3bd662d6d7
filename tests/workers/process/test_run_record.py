"""Records as plain data: what rides in them, what sizes they tell, and what they say of a failure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.proto.codec.values import pack_values
from raygrad.proto.ir.program import INLINE_RESULT_BYTES, Call
from raygrad.workers.code.shipping import unpack_exception
from raygrad.workers.process.run_record import (
    RecordBuilder,
    detached,
    failure_of,
    packed_since,
    record_of,
    recorded_values,
    size_of,
)
from raygrad.workers.values.placeholders import SpilledValue
from raygrad.workers.values.spill_file import SpillFile

from .test_host import doubling

CALL = Call(3, 1, 0, b"key", ())


def test_small_results_ride_in_a_record_large_ones_and_what_is_on_disk_do_not() -> None:
    parked = SpilledValue(SpillFile().write(pack_values([np.ones(1)])), [("cpu", 8)])
    slots = [np.ones(2), np.zeros(INLINE_RESULT_BYTES // 8 + 1), None, parked, {"an": "object"}]
    results = [(0, 10), (1, 11), (2, 12), (3, 13), (4, 14)]
    values = recorded_values(slots, results, [[slots[0], None, slots[1]], []], [(10, 16)])
    record = record_of(CALL, "worker 7", RecordBuilder(), 0.0, "done", values=values)
    assert [value for value, _ in record.results] == [10, 12, 14]
    assert record.exports == ((16 + slots[1].nbytes, 0), (0, 0))  # type: ignore[union-attr]
    assert (record.run, record.segment, record.worker, record.status) == (3, 1, "worker 7", "done")
    assert record.sizes == ((10, 16),)
    assert (size_of(None), size_of(slots[0]), size_of("text")) == (-1, 16, 0)


@pytest.mark.parametrize("code", [None, "Fails"])
def test_a_failure_names_the_step_its_shapes_and_the_error(code: str | None) -> None:
    program = doubling()
    try:
        raise LookupError("not here", 2)
    except LookupError as error:
        failure = failure_of(program, 0, [np.ones((2, 3)), None], error, code)
        after = failure_of(program, 1, [], error, None)
    assert (failure.index, failure.node) == (4, code or "add")
    assert failure.shapes == ("float64[2, 3]",) * 2
    assert "not here" in failure.traceback
    assert unpack_exception(failure.exception).args == ("not here", 2)
    assert (after.index, after.node, after.type) == (-1, "segment", "LookupError")


def test_what_is_emitted_has_no_history_at_any_depth() -> None:
    tensor = rg.ones(2, requires_grad=True) * 2.0
    value: Any = {"one": [tensor, 1], "two": (tensor,)}
    found = detached(value)
    assert not found["one"][0].requires_grad
    assert found["two"][0].numpy().tolist() == [2.0, 2.0]
    assert found["one"][1] == 1


def test_packing_counts_from_when_it_began() -> None:
    record = record_of(CALL, "worker 7", RecordBuilder(), 0.0, "done")
    assert packed_since(record, 0.0).timing.outputs > 0.0 == record.timing.outputs
