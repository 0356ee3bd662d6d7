"""The order of what workers emit: that of the engine in `run.emits`, whoever was faster (H20)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.client.session.session import executor_of
from raygrad.proto.ir.program import Record
from raygrad.scheduler.model.measured_costs import TimedRecord
from raygrad.workers.code.shipping import pickle_value


def called(run: int, segment: int, worker: int, *emits: tuple[int, int]) -> TimedRecord:
    """Return the answer of a worker that emitted at these (node, ordinal)."""
    packed = tuple([(node, ordinal, "place", pickle_value((node, ordinal))) for node, ordinal in emits])
    record = Record(run, segment, 0, f"worker {worker}", worker, 0.0, "done", (), (), (), (), (), packed, ())
    return TimedRecord(record, 0.0, 0.0, False, 0.0)


def test_h20_emits_of_late_answers_of_three_workers_are_sorted_by_position() -> None:
    heard: list[Any] = []
    with rg.Session(workers=3) as session:
        session.on("place", heard.append)
        y = rg.ones(2) * 2.0
        run = session.run(y).wait()
        arrivals = session._listener
        session._runs.active[run.number] = run
        answers = [
            called(run.number, 2, 2, (9, 0), (10, 1), (10, 0)),
            called(run.number, 0, 0, (11, 0), (1, 1), (1, 0), (4, 0)),
            called(run.number, 1, 1, (2, 2), (2, 0), (2, 1)),
            called(run.number + 1, 0, 1, (0, 0)),  # of another run
        ]
        for answer in answers:
            arrivals.record(answer, finished=False)
        places = [(node, ordinal) for one in answers for node, ordinal, _, _ in one.record.emits]
        assert heard == places, "handlers hear what comes, as it comes"
        assert run.emits == [("place", place) for place in sorted(places[:-1])]
        session._runs.active.pop(run.number)


class Tells(rg.autograd.Function):
    effects = True

    @staticmethod
    def infer(x: Any, number: int) -> Any:
        return x.shape, x.dtype

    @staticmethod
    def forward(ctx: Any, x: Any, number: int) -> Any:
        rg.emit("told", (number, "first"))
        rg.emit("told", (number, "second"))
        return x + number


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_h20_emits_come_once_before_what_depends_on_them_whoever_is_faster(order: tuple[int, ...]) -> None:
    heard: list[Any] = []
    with rg.Session(workers=3) as session:
        session.start()
        session.on("told", heard.append)
        executor = executor_of(session)
        poll, held = executor.poll, list[Any]()

        def poll_late(timeout: float) -> list[Any]:
            """Bring answers once all have come, those of emitting segments first, in another order."""
            held.extend(poll(timeout))
            if executor.busy:
                return []
            ranks = [f"worker {number}" for number in order]
            brought = sorted(held, key=lambda one: (not one.record.emits, ranks.index(one.record.worker)))
            held.clear()
            return brought

        executor.poll = poll_late
        parts = []
        for number in range(3):
            with rg.place(worker=number):
                parts.append(Tells.apply(rg.zeros(2), number))
        total = parts[0] + parts[1] + parts[2]
        assert total.tolist() == [3.0, 3.0]
        texts = ("first", "second")
        assert heard == [(number, text) for number in order for text in texts]
        run = session.last_run
        assert run is not None
        assert run.wait().emits == [("told", (number, text)) for number in range(3) for text in texts]
        executor.poll = poll
    assert len(heard) == 6


def test_an_error_of_a_handler_is_raised_at_the_next_sync_point_and_no_emit_is_lost(session: Any) -> None:
    class Emits(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            for number in range(4):
                rg.emit("number", number)
            return x * 2.0

    seen: list[int] = []

    def handler(number: int) -> None:
        if number % 2:
            raise KeyError(number) if number == 1 else SystemExit(number)
        seen.append(number)

    with session:
        session.on("number", handler)
        session.on("number", lambda number: seen.append(-number))
        with pytest.raises(KeyError, match="1"):
            Emits.apply(rg.ones(1)).tolist()
        assert seen == [0, 0, -1, 2, -2, -3]
        with pytest.raises(SystemExit):
            session.run()
        assert session.last_run.done()
        assert (rg.ones(1) + 1.0).tolist() == [2.0]
