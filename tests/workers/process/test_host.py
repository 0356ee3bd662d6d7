"""One worker: calls, pins, failures and poison."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import ExecutionError
from raygrad.proto.ir.nodes import Load, Spill
from raygrad.proto.ir.program import INLINE_RESULT_BYTES, Call, Item, Pinned, Program, Step
from raygrad.proto.ir.specs import ArraySpec
from raygrad.workers.code.shipping import ship, unpack_exception
from raygrad.workers.interpreter.user_emits import emit, emitting_to
from raygrad.workers.process import host as module
from raygrad.workers.process.gil_wait import GilWaitClock
from raygrad.workers.process.host import WorkerHost
from raygrad.workers.process.run_record import packed_since
from raygrad.workers.values.packed_values import POISON, unpack_all
from raygrad.workers.values.placeholders import ValueState

from ...graph_nodes import function_node, op_node, plain_node
from ..values.test_packed_values import Keeps, context_of

VECTOR = ArraySpec((2,), "float64")


def doubling(**fields: Any) -> Program:
    """Return a program of one step, slot 1 = slot 0 + slot 0."""
    node = op_node("add", (0, 0), (0,))
    blank: dict[str, Any] = {
        "slots": 2,
        "specs": (VECTOR,),
        "externals": ((0, 0),),
        "imports": (),
        "unpins": (),
        "steps": (Step(4, node, (1,), ()),),
        "exports": (),
        "pins": (),
        "results": (),
    }
    return Program(**{**blank, **fields})


@pytest.fixture
def host() -> WorkerHost:
    return WorkerHost("worker 7")


def call(host: WorkerHost, program: Program, externals: tuple[Any, ...], objects: list[Any] = [], run: int = 1) -> Any:  # noqa: B006
    key = repr(program).encode()
    host.load(key, program)
    return host.run(Call(run, 0, 0, key, externals), objects)


def test_small_results_ride_in_the_record_and_large_ones_do_not(host: WorkerHost) -> None:
    program = doubling(results=((1, 9),), pins=((1, 9),))
    small, _ = call(host, program, (np.array([1.0, 2.0]),))
    large, _ = call(host, program, (np.zeros(INLINE_RESULT_BYTES // 8 + 1),), run=2)
    assert small.results[0][0] == 9
    assert small.results[0][1].tolist() == [2.0, 4.0]
    assert large.results == ()
    assert small.sizes == large.sizes == (), "nobody asks"
    assert host.fetch(2, 9).shape == (INLINE_RESULT_BYTES // 8 + 1,)


def test_externals_come_as_values_pins_or_items_of_objects(host: WorkerHost) -> None:
    program = doubling(exports=((1,),), pins=((1, 5),))
    _, exports = call(host, program, (np.array([1.0, 1.0]),))
    assert exports[0][0].tolist() == [2.0, 2.0]
    _, exports = call(host, program, (Pinned(1, 5),), run=2)
    assert exports[0][0].tolist() == [4.0, 4.0]
    _, exports = call(host, program, (Item(0, 1),), [[None, np.array([3.0, 3.0])]], run=3)
    assert exports[0][0].tolist() == [6.0, 6.0]


def test_unpinning_lets_go(host: WorkerHost) -> None:
    call(host, doubling(pins=((1, 5),)), (np.array([1.0, 1.0]),))
    assert host.pinned == 1
    host.unpin([Pinned(1, 5), Pinned(1, 6)])
    assert host.pinned == 0
    with pytest.raises(KeyError):
        host.fetch(1, 5)


class Fails(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        raise LookupError("not here", x.shape)


def test_a_failure_comes_back_in_the_record_and_poisons_what_was_not_made(host: WorkerHost) -> None:
    shipped = ship(Fails, in_process=True)
    host.learn(shipped.fingerprint, shipped.shipment)
    node = function_node("@" + shipped.fingerprint, (0,), (0, 0), (0,), recorded=False)
    program = doubling(steps=(Step(4, node, (-1, 1), ()),), exports=((1,),), pins=((1, 5),))
    record, exports = call(host, program, (np.array([1.0, 2.0]),))
    assert record.status == "failed"
    assert exports == [POISON]
    assert host.fetch(1, 5) is POISON
    failure = record.failure
    assert (failure.index, failure.node, failure.shapes) == (4, "Fails", ("float64[2]",))
    assert "not here" in failure.traceback
    error = unpack_exception(failure.exception)
    assert type(error) is LookupError
    assert error.args == ("not here", (2,))


def test_poison_skips_a_segment_and_spreads(host: WorkerHost) -> None:
    program = doubling(imports=((0,),), externals=(), exports=((1,),), pins=((1, 5),))
    record, exports = call(host, program, (), [POISON])
    assert record.status == "skipped"
    assert exports == [POISON]
    assert host.fetch(1, 5) is POISON
    record, _ = call(host, doubling(), (Pinned(1, 5),), run=2)
    assert record.status == "skipped"


def test_a_program_or_code_that_was_never_shipped_is_named(host: WorkerHost) -> None:
    with pytest.raises(ExecutionError, match="was not loaded on worker worker 7"):
        host.run(Call(1, 0, 0, b"\x01", ()), [])
    with pytest.raises(ExecutionError, match="'@abc' was not shipped"):
        host.code("@abc", [])


def test_a_record_says_when_it_ran_and_which_nodes_took_long(host: WorkerHost, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr("raygrad.workers.process.host.time.perf_counter", lambda: float(next(now)))
    monkeypatch.setattr("raygrad.workers.process.host.time.monotonic", lambda: 500.0)
    for clock in ("thread_time", "process_time"):  # what other threads of the tests' process used is no wait here
        monkeypatch.setattr(f"raygrad.workers.process.host.time.{clock}", lambda: 0.0)
    program = doubling(results=((1, 9),))
    host.load(b"key", program)
    record, _ = host.run(Call(1, 0, 0, b"key", (np.ones(2),)), [], 3.0)
    timing = record.timing
    assert timing.began == 497.0  # the three seconds of unpacking came before
    assert timing.inputs == 4.0
    ((index, start, seconds),) = timing.nodes
    assert (index, seconds) == (4, 1.0)
    assert timing.inputs <= start < start + seconds <= timing.inputs + timing.steps
    assert packed_since(record, 0.0).timing.outputs > 0


def test_what_a_node_waits_for_other_threads_is_told_apart(host: WorkerHost, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stood(GilWaitClock):
        def since(self) -> float:
            self.seconds += 0.25
            return 0.25

    monkeypatch.setattr(module, "GilWaitClock", Stood)
    for suspect, waited in ((0.0, 0.25), (float("inf"), 0.0)):
        monkeypatch.setattr(module, "SUSPECT_SECONDS", suspect)
        monkeypatch.setattr(module, "LONG_NODE_SECONDS", 1e-9)
        record, _ = call(host, doubling(results=((1, 9),)), (np.ones(2),), run=int(waited * 8))
        assert record.timing.waited == waited
        ((node, _, took),) = record.timing.nodes
        assert node == 4
        assert (took == 1e-9) is (waited > 0), "not less than what makes a node long"


def test_a_node_that_takes_no_time_is_not_told_of(host: WorkerHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raygrad.workers.process.host.time.perf_counter", lambda: 1.0)
    record, _ = call(host, doubling(results=((1, 9),)), (np.ones(2),))
    assert record.timing.nodes == ()


ANY = (("cpu", -1),)
SPILLED = ValueState.SPILLED


def test_a_record_says_what_values_held_if_its_call_asks(host: WorkerHost) -> None:
    program = doubling(pins=((1, 9),))
    host.load(b"key", program)
    peaks = [
        host.run(Call(run, 0, 0, b"key", (np.ones(100),), headroom=ANY if run != 2 else ()), [])[0].peaks
        for run in (1, 2, 3)
    ]
    assert peaks == [(("cpu", 1600),), (), (("cpu", 3200),)], "what other runs pinned counts, too"


def spilling(first: str, *more: Step, **fields: Any) -> Program:
    """A program over one value of an earlier run, which a first step spills or negates."""
    node = plain_node(Spill, (0,), (0,)) if first == "spill" else op_node(first, (0,), (0,))
    steps = (Step(4, node, (1,), (0,)), *more)
    return doubling(steps=steps, **{"slots": 3, **fields})


LOAD = Step(5, plain_node(Load, (1,), (0,)), (2,), ())
"""Loads what the first step spilled."""


def test_what_a_program_spills_of_an_earlier_run_is_on_disk_under_its_name(host: WorkerHost) -> None:
    array = np.arange(100.0)
    host.values.put((1, 7), array)
    host.load(b"key", spilling("spill", LOAD, pins=((2, 9),)))
    for run in (2, 3):
        record, _ = host.run(Call(run, 0, 0, b"key", (Pinned(1, 7),), headroom=ANY), [])
        assert record.status == "done"
        assert host.values.state((1, 7)) is SPILLED
        assert host.values.file.used == 800, "it is written once"
        assert record.peaks == (("cpu", 800 * (run - 1)),), "what was loaded, and what the run before has left"
    assert np.array_equal(host.fetch(1, 7), array)
    assert np.array_equal(host.fetch(3, 9), array)
    assert host.values.state((1, 7)) is SPILLED, "reading it does not bring it back for good"
    host.unpin([Pinned(1, 7)])
    assert host.values.file.used == 0


def test_what_a_program_reads_and_waits_on_disk_is_brought_once_others_have_made_room(host: WorkerHost) -> None:
    for value in (7, 8):
        host.values.put((1, value), np.full(100, float(value)))
    negate = Step(5, op_node("neg", (3,), (0,)), (2,), ())
    program = spilling("spill", negate, slots=4, externals=((0, 0), (1, 3)), results=((2, 9),))
    host.load(b"key", program)
    host.values.put((1, 8), host.values.spill(host.fetch(1, 8)))
    record, _ = host.run(Call(2, 0, 0, b"key", (Pinned(1, 7), Pinned(1, 8)), headroom=ANY), [])
    assert record.results[0][1].tolist() == [-8.0] * 100
    assert host.values.state((1, 7)) is SPILLED
    assert host.fetch(1, 8).tolist() == [8.0] * 100
    assert record.peaks == (("cpu", 1600),)


def test_values_of_other_runs_make_way_for_a_call_as_far_as_it_says(host: WorkerHost) -> None:
    for value in range(4):
        host.values.put((1, value), np.full(100, float(value)))
    host.load(b"key", doubling(results=((1, 9),)))
    record, _ = host.run(Call(2, 0, 0, b"key", (Pinned(1, 0),), headroom=(("cpu", 1000),)), [])
    assert record.results[0][1].tolist() == [0.0] * 100
    assert [host.values.state((1, value)) is SPILLED for value in range(4)] == [False, True, True, False]
    assert [host.fetch(1, value)[0] for value in range(4)] == [0.0, 1.0, 2.0, 3.0]


def test_what_cannot_be_written_makes_no_way(host: WorkerHost) -> None:
    made = context_of((200_000,))
    made.live(Keeps).__dict__["held"] = lambda: made
    host.values.put((1, 0), made)
    host.load(b"key", doubling())
    host.run(Call(2, 0, 0, b"key", (np.ones(3),), headroom=(("cpu", 0),)), [])
    assert host.fetch(1, 0) is made


def test_what_a_program_keeps_and_spills_is_kept_on_disk_and_leaves_as_it_was(host: WorkerHost) -> None:
    program = spilling("neg", Step(5, plain_node(Spill, (1,), (0,)), (2,), ()))
    program = program._replace(pins=((1, 9),), results=((1, 9),), exports=((1,),))
    host.load(b"key", program)
    record, exports = host.run(Call(1, 0, 0, b"key", (np.ones(100),), headroom=ANY), [])
    assert record.results == ()
    assert host.values.state((1, 9)) is SPILLED
    assert host.brought(exports)[0][0].tolist() == [-1.0] * 100
    packed: Any = host.pack(exports[0])
    unpacked: Any = unpack_all(packed)
    assert unpacked[0].tolist() == [-1.0] * 100
    assert record.exports == ((800, 0),)
    assert host.fetch(1, 9).tolist() == [-1.0] * 100


LIMITED: dict[str, Any] = {"headroom": (("cpu", 0),), "limits": (("cpu", 3000),)}
"""A call that leaves no memory to what other runs pinned."""


def test_a_disk_that_takes_nothing_fails_the_call_and_loses_nothing(
    host: WorkerHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(100.0)
    host.values.put((1, 0), array)
    host.load(b"key", doubling(pins=((1, 9),)))
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", "/nowhere")
        record, _ = host.run(Call(2, 0, 0, b"key", (np.ones(3),), **LIMITED), [])
    assert (record.status, record.failure.index) == ("failed", -1)  # type: ignore[union-attr]
    assert type(unpack_exception(record.failure.exception)) is ExecutionError  # type: ignore[union-attr]
    assert host.fetch(2, 9) is POISON
    assert host.fetch(1, 0) is array
    record, _ = host.run(Call(3, 0, 0, b"key", (np.ones(3),), **LIMITED), [])
    assert record.status == "done"
    assert host.values.file.used == 800


def test_a_write_that_breaks_off_gives_its_part_of_the_file_back(
    host: WorkerHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.values.put((1, 0), np.arange(100.0))
    host.load(b"key", doubling())

    def broken(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", broken)
        record, _ = host.run(Call(2, 0, 0, b"key", (np.ones(3),), **LIMITED), [])
    assert record.status == "failed"
    gc.collect()
    assert host.values.file.used == 0
    assert host.fetch(1, 0).tolist() == np.arange(100.0).tolist()


def test_what_is_released_while_on_disk_is_gone_from_there_unless_a_call_has_it(host: WorkerHost) -> None:
    for value in (0, 1):
        host.values.put((1, value), np.full(100, float(value)))
    host.load(b"key", doubling(results=((1, 9),)))
    host.run(Call(2, 0, 0, b"key", (np.ones(3),), **LIMITED), [])
    assert host.values.file.used == 1600
    record, _ = host.run(Call(3, 0, 0, b"key", (Pinned(1, 0),), unpin=(Pinned(1, 1),), **LIMITED), [])
    gc.collect()
    assert host.values.file.used == 0, "what was read is in memory again, and what was released is nowhere"
    assert record.results[0][1].tolist() == [0.0] * 100


def test_what_is_read_from_outside_stays_on_disk_and_has_its_bits_each_time(host: WorkerHost) -> None:
    array = np.array([np.nan, -0.0, 1.5, 2.0])
    host.values.put((1, 0), array)
    host.load(b"key", doubling())
    host.run(Call(2, 0, 0, b"key", (np.ones(3),), **LIMITED), [])
    found = [host.fetch(1, 0) for _ in range(3)]
    assert [one.tobytes() for one in found] == [array.tobytes()] * 3
    assert host.values.file.used == 32


def test_names_of_one_value_leave_and_return_one_by_one(host: WorkerHost) -> None:
    array = np.arange(100.0)
    host.values.put((1, 0), array)
    host.values.put((1, 1), array)
    host.load(b"key", doubling(results=((1, 9),)))
    host.run(Call(2, 0, 0, b"key", (np.ones(3),), **LIMITED), [])
    assert host.values.file.used == 800, "written once for both"
    record, _ = host.run(Call(3, 0, 0, b"key", (Pinned(1, 0),), headroom=ANY), [])
    assert record.results[0][1].tolist() == (2 * np.arange(100.0)).tolist()
    host.unpin([Pinned(1, 0)])
    assert host.values.file.used == 800, "the other is there still"
    assert host.fetch(1, 1).tolist() == np.arange(100.0).tolist()


def test_what_backward_left_goes_to_disk_only_where_memory_is_limited_and_it_holds_much(host: WorkerHost) -> None:
    host.load(b"key", doubling())
    for headroom, shape, used in (((), (20_000,), 0), (ANY, (20_000,), 160_000), (ANY, (20,), 0)):
        host.run(Call(2, 0, 0, b"key", (np.ones(3),), headroom=headroom), [])
        context = context_of(shape, own=2.0)
        packed: Any = context.packed()
        before = pickle.dumps([packed["saved"], packed["attributes"]])
        del packed
        assert host.values.spill_left(context) is context
        assert host.values.file.used == used
        after: Any = context.packed()
        assert pickle.dumps([after["saved"], after["attributes"]]) == before
        del context, after
        gc.collect()
        assert host.values.file.used == 0


def test_what_runs_a_second_time_is_silent(host: WorkerHost) -> None:
    heard: list[str] = []
    with emitting_to(lambda name, value: heard.append(name)):
        emit("once", 1)
        report = host.report
        with host.values.silently():
            emit("again", 1)
            assert host.report is not report
        emit("after", 1)
    assert heard == ["once", "after"]
    assert host.report is report
