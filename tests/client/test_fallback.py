"""What a failure takes along: the cells, records and runs that depend on it, and nothing else (H8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.core.recorder import Pending
from raygrad.client.recording.records import NodeRecord
from raygrad.client.submission.submission import Submitted
from raygrad.proto.ir.nodes import UNPLACED, OpCall
from raygrad.proto.ir.specs import ArraySpec


@pytest.fixture
def session() -> Iterator[Any]:
    session = rg.Session(workers=1)
    yield session
    session.close(discard=True)


def node(session: Any, *sources: Any, run: int = -1, near: Any = None) -> NodeRecord:
    """Return a record that was submitted as part of a run, or is yet to be."""
    recorder = session._recorder
    outputs = [recorder.log.specs.entry(ArraySpec((2,), "float32"))]
    record = NodeRecord(
        recorder.log, OpCall(*UNPLACED, "sin", ()), [(source, 0, None) for source in sources], outputs, None
    )
    record.near = near and (near, 0, None)
    record.run, record.base = run, 0
    return record


def value(session: Any, run: int) -> Pending:
    return node(session, run=run).output(0)


def submit(session: Any, run: int, *depends: int) -> Submitted:
    """Enter the writes since the last submission as those of a run that reads from others."""
    submitted = Submitted(run, [], {}, session._log.variables.take(), set(depends))
    session._runs.history.append(submitted)
    return submitted


def parameter() -> Any:
    return rg.tensor([1.0, 2.0], requires_grad=True)


def test_h8_a_gradient_cleared_between_a_failing_and_a_dependent_submission_stays_cleared(session: Any) -> None:
    cells, x = session._log.variables, parameter()
    cells.write(x, "_grad", rg.Tensor.made(value(session, 1)))
    submit(session, 1)
    cells.write(x, "_grad", None)
    cells.write(x, "_grad", rg.Tensor.made(value(session, 2)))
    submit(session, 2, 1)
    session._failures.fail(1, ValueError("no"))
    assert x._grad is None


def test_h8_a_gradient_cleared_before_a_run_that_fails_alone_stays_cleared(session: Any) -> None:
    cells, x = session._log.variables, parameter()
    cells.write(x, "_grad", rg.Tensor.made(value(session, 1)))
    submit(session, 1)
    cells.write(x, "_grad", None)
    cells.write(x, "_grad", rg.Tensor.made(value(session, 2)))
    submit(session, 2)
    session._failures.fail(2, ValueError("no"))
    assert x._grad is None


def test_h8_of_a_chain_of_three_parameters_fall_back_to_before_the_first_that_failed(session: Any) -> None:
    cells, x, other = session._log.variables, parameter(), parameter()
    versions = [value(session, run) for run in (1, 2, 3)]
    for run, version in enumerate(versions, 1):
        cells.write(x, "_data", version)
        submit(session, run, *range(1, run)[-1:])
    beside = value(session, 4)
    cells.write(other, "_data", beside)
    kept = submit(session, 4)
    dropped = session._runs.history[1:3]
    error = ValueError("no")
    session._failures.fail(2, error)
    assert x._data is versions[0]
    assert other._data is beside
    assert [one.run for one in session._runs.history] == [1, 4]
    assert [one.error for one in dropped] == [error, error]
    assert kept.error is None
    assert sorted(session._failures.runs) == [2, 3]
    assert {session._failures.runs[run] for run in (2, 3)} == {"run 2 failed with ValueError: no"}
    assert any("dropped with it: run 2, run 3;" in note for note in error.__notes__)


def test_h8_several_leaves_and_all_their_cells_fall_back_together(session: Any) -> None:
    cells, leaves = session._log.variables, [parameter(), parameter()]
    before = [leaf._data for leaf in leaves]
    for leaf in leaves:
        cells.write(leaf, "_data", value(session, 1))
        cells.write(leaf, "_grad", rg.Tensor.made(value(session, 1)))
    submit(session, 1)
    session._failures.fail(1, ValueError("no"))
    assert [leaf._data for leaf in leaves] == before
    assert [leaf._grad for leaf in leaves] == [None, None]


def test_h8_writes_not_yet_submitted_fall_back_if_they_depend_and_wait_on_if_not(session: Any) -> None:
    cells, reached, apart = session._log.variables, parameter(), parameter()
    before = reached._data
    made = value(session, 1)
    submit(session, 1)
    cells.write(reached, "_data", node(session, made.record).output(0))
    cells.write(apart, "_data", independent := node(session).output(0))
    session._failures.fail(1, ValueError("no"))
    assert reached._data is before
    assert apart._data is independent
    assert [(write.owner, write.new) for write in cells.take()] == [(apart, independent)]


def test_h8_an_alias_whose_memory_depends_on_the_failure_needs_computing(session: Any) -> None:
    cells, x = session._log.variables, parameter()
    before = x._grad
    cells.write(x, "_grad", rg.Tensor.made(value(session, 1)))
    cells.write(x, "_grad", rg.Tensor.made(value(session, 1)))
    (write,) = cells.take()
    assert write.old is before


def test_records_that_read_from_a_failed_run_are_dropped_with_all_that_read_them(session: Any) -> None:
    recorder, made = session._recorder, node(session, run=1)
    direct, context = node(session, made), node(session, near=made)
    after, apart = node(session, direct), node(session, node(session, run=2))
    recorder.log.records[:] = [direct, apart, context, after]
    recorder.log.drop_dependants({1})
    assert recorder.log.records == [apart]
    assert [one.failed for one in (direct, context, after, apart)] == [True, True, True, False]
    assert [len(one.sources) for one in (direct, after, apart)] == [0, 0, 1]
    assert context.near is None


def test_a_value_made_of_a_dropped_record_depends_on_the_failure(session: Any) -> None:
    cells, x = session._log.variables, parameter()
    before = x._data
    dropped = node(session)
    dropped.failed = True
    cells.write(x, "_data", dropped.output(0))
    session._failures.fail(1, ValueError("no"))
    assert x._data is before


def test_a_run_fails_once_and_one_that_reads_from_a_failed_run_has_no_error_of_its_own(session: Any) -> None:
    failures = session._failures
    submit(session, 1)
    submit(session, 2, 1)
    failures.report(1, None, "abandoned", None)
    failures.report(2, None, "dependency on run 1", None)
    failures.report(1, None, "abandoned", None)
    assert [str(error) for error in failures.unraised] == ["run 1 was given up: abandoned"]
    with pytest.raises(rg.errors.ExecutionError, match="run 1 was given up"):
        failures.raise_next()
    failures.raise_next()


def test_runs_that_end_out_of_order_are_forgotten_once_all_before_them_have_ended(session: Any) -> None:
    arrivals = session._listener
    for run in (1, 2, 3):
        submit(session, run)
        session._warnings._seen[run] = set()
    arrivals.finished(2)
    assert [one.run for one in session._runs.history] == [1, 2, 3]
    arrivals.finished(1)
    assert [one.run for one in session._runs.history] == [3]
    arrivals.failed(3, None, "abandoned")
    assert session._runs.history == []
    assert session._warnings._seen == {}
    session._failures.unraised.clear()
