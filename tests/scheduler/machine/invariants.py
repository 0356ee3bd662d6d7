"""The invariants of the state machine between two events, checked by recounting its state from scratch.

Tests call `check_invariants` after every event, also in simulations (`watch`). It takes time proportional to everything
alive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from raygrad.errors import InvariantViolation
from raygrad.scheduler.machine.lineage import may_run_again
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.machine.state import LiveRun, LiveSegment, ObjectState, SegmentState, State
from raygrad.scheduler.model.plan import InStore


def check_invariants(machine: Machine) -> None:
    """Check every invariant.

    Raises InvariantViolation naming the first that does not hold.
    """
    for problem in _problems(machine):
        raise InvariantViolation(problem)


def _problems(machine: Machine) -> Iterator[str]:
    state = machine.state
    yield from _flight(machine)
    yield from _bytes(state)
    read = _reads(state)
    lineage = Counter(one for run in state.runs.values() if run.retained for one in run.reads)
    for run in state.runs.values():
        yield from _run(state, run)
        yield from _outlook(run)
        yield from _needs(run, read, lineage, recovering=state.recovery is not None or state.damaged)


def _segments(state: State) -> Iterator[LiveSegment]:
    for run in state.runs.values():
        yield from run.segments


def _flight(machine: Machine) -> Iterator[str]:
    state = machine.state
    running = Counter(one.given.worker for one in _segments(state) if one.state is SegmentState.RUNNING)
    for worker in {*state.in_flight, *running}:
        count = state.in_flight.get(worker, 0)
        if count != running[worker]:
            yield f"worker {worker} runs {running[worker]} segments, and {count} are counted"
        if count > machine.window:
            yield f"worker {worker} has {count} segments in flight, more than {machine.window}"
        if count and worker in state.lost_workers:
            yield f"worker {worker} is lost and has segments in flight"
    waiting = [one for one in _segments(state) if one.state is SegmentState.WAITING]
    disturbed = state.recovery is not None or state.damaged or state.skipped
    if waiting and not sum(running.values()) and state.revision is None and not disturbed and not state.replacing:
        yield f"nothing runs, and segment {waiting[0].index} of run {waiting[0].run} waits for ever"
    queued = {id(one) for queue in state.queues.values() for one in queue}
    for one in waiting:
        if id(one) not in queued and not one.stale:
            yield f"segment {one.index} of run {one.run} waits in no queue"
    dispatcher = machine.dispatcher
    for worker in state.queues:
        head = dispatcher.head(worker)
        if head is not None and state.revision is not None and head.run == state.revision.run:
            continue
        if disturbed or worker in state.lost_workers or worker in state.replacing:
            continue
        if head is not None and state.runs[head.run].damaged:
            continue
        if head is not None and state.in_flight.get(worker, 0) < machine.window and dispatcher.missing(head) is None:
            yield f"segment {head.index} of run {head.run} could be commanded and is not"


def _bytes(state: State) -> Iterator[str]:
    exports = [export for run in state.runs.values() for export in run.exports.values()]
    objects = sum(value.size for run in state.runs.values() for value in run.values.values())
    copies = sum(copy.size for run in state.runs.values() for copy in run.copies.values())
    total = sum(export.size for export in exports) + objects + copies
    if total != state.exported_bytes:
        yield f"{total} bytes are exported, and {state.exported_bytes} are counted"
    saved = sum(export.size for export in exports if export.saved) + copies
    if saved != state.saved_bytes:
        yield f"{saved} bytes are saved, and {state.saved_bytes} are counted"
    if state.saved_bytes > state.peak_saved_bytes or state.exported_bytes > state.peak_exported_bytes:
        yield "a peak is below what it is the peak of"


def _run(state: State, run: LiveRun) -> Iterator[str]:
    name = f"run {run.run}"
    final = sum(one.state.final for one in run.segments)
    if run.unfinished != len(run.segments) - final:
        yield f"{name} has {len(run.segments) - final} unfinished segments, and {run.unfinished} are counted"
    if run.failed and run.finished:
        yield f"{name} has finished and failed"
    if run.failed and run.run not in state.failed_runs:
        yield f"{name} has failed and is not listed"
    states = {one.state for one in run.segments}
    unsuccessful = states - {SegmentState.DONE, SegmentState.REPLACED}
    if run.recoverable:  # a part of it may run again
        unsuccessful -= {SegmentState.WAITING, SegmentState.RUNNING}
        if run.recoveries:  # which may fail
            unsuccessful -= {SegmentState.FAILED, SegmentState.SKIPPED}
    if run.finished and unsuccessful:
        yield f"{name} has finished with a segment that is {unsuccessful.pop().value}"
    if not run.failed and not (run.finished and run.recoveries) and SegmentState.FAILED in states:
        yield f"{name} has a failed segment and has not failed"
    if run.failed and SegmentState.WAITING in states:
        yield f"{name} has failed, and a segment of it is still to be started"
    over = not run.unfinished and (run.failed or run.finished)
    if over and not run.values and not run.exports and not run.retained:
        yield f"{name} is over and not forgotten"
    if run.retained and over and not may_run_again(run):
        yield f"{name} is remembered, and nothing of it can have to run again"
    if ((over and not run.recoverable) or run.failed) and run.copies:
        yield f"{name} is over and has copies of what it saved"
    ended = [one for one in run.segments if one.state.final and one.dispatched]
    dropped = {value for one in ended for value in one.given.drops}
    if dropped & run.copies.keys() and not run.recoveries:
        yield f"{name} has copies of values that nobody reads any more"
    if not run.unfinished and not run.failed and not run.finished and not run.waits_for:
        yield f"{name} is over and nobody was told"
    for source in run.waits_for:
        if not run.failed and source not in state.runs:
            yield f"{name} waits for run {source}, which is gone"
    for one in run.segments:
        if one.state is SegmentState.RUNNING:
            for needed in {source for source, _ in one.given.imports} | {*one.given.after}:
                if not run.segments[needed].dispatched and not run.segments[needed].stale and not state.recovery:
                    yield f"segment {one.index} of {name} runs before segment {needed} was commanded"


def _reads(state: State) -> Counter[tuple[int, int]]:
    """Count, per kept value, the segments that read it and are not final."""
    return Counter(read for one in _segments(state) if not one.state.final for read in one.given.reads)


def _outlook(run: LiveRun) -> Iterator[str]:
    """What is left on each worker is counted right."""
    if run.outlook is None:
        return
    for worker, (left, running) in enumerate(zip(run.outlook.left, run.outlook.running, strict=True)):
        mine = [one for one in run.segments if one.given.worker == worker and not one.state.final]
        if abs(sum(one.given.seconds for one in mine) - left) > 1e-6:
            yield f"run {run.run} has {mine} left on worker {worker}, and {left} s are counted"
        if {one.index for one in mine if one.state is SegmentState.RUNNING} != running:
            yield f"run {run.run} runs other segments on worker {worker} than {running}"


def _needs(
    run: LiveRun, read: Counter[tuple[int, int]], lineage: Counter[tuple[int, int]], *, recovering: bool
) -> Iterator[str]:
    """What is alive is needed, and counted right."""
    imported = Counter(source for one in run.segments if not one.state.final for source in one.given.imports)
    kept: Counter[tuple[int, int]] = Counter()
    for value in run.values.values():
        name = f"value {value.value} of run {run.run}"
        readers = read[run.run, value.value] + (value.object is ObjectState.REQUESTED)
        if value.readers != readers:
            yield f"{name} has {readers} readers, and {value.readers} are counted"
        needed = value.held or readers or value.lineage or recovering  # during a recovery it may be needed soon
        if not needed and run.segments[value.place.segment].state.final:
            yield f"{name} is needed by nobody and not released"
        if value.lineage != lineage[run.run, value.value]:
            yield f"{name} counts in {value.lineage} lineages, and {lineage[run.run, value.value]} runs have read it"
        if value.lost and value.object is not ObjectState.ABSENT:
            yield f"{name} is lost and an object"
        if isinstance(value.place, InStore) and not value.lost:
            kept[value.place.segment, value.place.export] += 1
            if (value.place.segment, value.place.export) not in run.exports:
                yield f"{name} is kept in an object that was dropped"
    for key, export in run.exports.items():
        name = f"export {key[1]} of segment {key[0]} of run {run.run}"
        if (export.readers, export.kept) != (imported[key], kept[key]):
            yield f"{name} has {imported[key]} readers and {kept[key]} kept values, miscounted: {export}"
        if not export.readers and not export.kept and run.segments[export.segment].state.final:
            yield f"{name} is needed by nobody and not dropped"
    for key in imported:
        if key not in run.exports:
            yield f"export {key[1]} of segment {key[0]} of run {run.run} is still to be read and was dropped"
