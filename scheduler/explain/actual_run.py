"""Facts about a run beside its plan's predictions: times, waits, transfers and memory of each segment and worker.

Computed from the plan and the segments' records; `report.run_report` and `report.trace` render them. All times are
seconds since the submission, by the session's clock, to which `clock_alignment` converts those of workers. Segments
without a record are listed as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..memory.peak_memory import ExportSizes, peak_bytes, stored_lifetimes
from ..model.measured_costs import TimedRecord
from ..model.plan import Plan
from .clock_alignment import ClockOffset
from .explanation import WorkerTransfer


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRun:
    """One segment as it ran."""

    index: int
    worker: int
    status: str
    """"done", "failed", "missing": no record of it has come yet, "not run": none has come of a run that failed or was
    dropped, or "replaced": before it began, its nodes were planned again, and are in later segments."""
    predicted: float
    """Predicted seconds of its nodes."""
    seconds: float
    """Seconds of its nodes."""
    inputs: float
    """Seconds to unpack what it reads."""
    outputs: float
    """Seconds to pack what it returns."""
    sent: float
    start: float
    """The time at which its worker began with it."""
    end: float
    came: float
    """The time at which the client had its record."""
    data_wait: float
    """Seconds that its worker was idle because what it reads was not made yet."""
    latency: float
    """Seconds from when it could have begun (sent, its worker free, what it reads made) to when it began: the call,
    and bringing what it reads."""
    held_by: int
    """The segment that made what came last of what it waited for, or -1."""
    bytes_out: int
    saved_bytes: int
    """Bytes of contexts among them."""
    nodes: tuple[tuple[int, float, float], ...]
    """(node, start, seconds) of the long ones."""

    @property
    def recorded(self) -> bool:
        """Whether a record of it has come: else its times are no measurements."""
        return self.status in ("done", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRun:
    """One worker, in one run."""

    name: str
    segments: int
    predicted: float
    """Predicted seconds of its nodes."""
    seconds: float
    """Seconds of its nodes."""
    packing: float
    """Seconds of packing and unpacking."""
    data_wait: float
    latency: float
    peak_stored: int
    """The most bytes of objects that it had returned and somebody still read."""
    peaks: tuple[tuple[str, int, int], ...]
    """(memory, predicted bytes, measured bytes) of each memory that is limited anywhere: the most that its values held
    at once; what was measured has those of other runs, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run, so far or in full. See `run_facts`."""

    segments: tuple[SegmentRun, ...]
    workers: tuple[WorkerRun, ...]
    moved: tuple[WorkerTransfer, ...]
    """What segments read of other workers, objects of this run only, with the bytes that they had."""
    predicted_seconds: float
    seconds: float
    """From submission until the last record came."""
    predicted_work: float
    work: float
    """Seconds of all nodes."""
    packing: float
    data_wait: float
    latency: float
    unsent: float
    """From submission until the first call was sent: planning, above all."""


def run_facts(
    plan: Plan,
    answers: Sequence[TimedRecord],
    offsets: Mapping[str, ClockOffset],
    submitted: float,
    *,
    stopped: bool = False,
) -> RunFacts:
    """Return the facts about a run. `submitted` and the times of the answers are by the session's clock; `stopped` says
    that it failed or was dropped, so that no further records will come."""
    by_segment = {answer.record.segment: answer for answer in answers}
    elapsed = max((answer.came for answer in answers), default=submitted) - submitted
    order = sorted(
        range(len(plan.segments)),
        key=lambda index: (_start(by_segment.get(index), offsets), index),
    )
    made: dict[int, SegmentRun] = {}
    free: dict[int, tuple[float, int]] = {}
    for index in order:
        answer = by_segment.get(index)
        if answer is not None:
            one = made[index] = _segment_run(plan, index, answer, offsets, submitted, made, free)
            free[one.worker] = (one.end, index)
    absent = "not run" if stopped else "missing"
    segments = tuple(
        made[i] if i in made else _missing_segment(plan, i, elapsed, absent) for i in range(len(plan.segments))
    )
    sizes = {i: [size for size, _ in answer.record.exports] for i, answer in by_segment.items()}

    def size(segment: int, export: int) -> int:
        known = sizes.get(segment, [])
        return known[export] if export < len(known) else 0

    stored = peak_bytes(stored_lifetimes(plan, segments, size), len(plan.workers))
    workers = tuple(
        _worker_run(
            name,
            [one for one in made.values() if one.worker == index],
            stored[index],
            [(device, said[index], _peak(device, index, made, by_segment)) for device, said in plan.peaks],
        )
        for index, name in enumerate(plan.workers)
    )
    return RunFacts(
        segments=segments,
        workers=workers,
        moved=_worker_transfers(plan, made, size),
        predicted_seconds=plan.predicted_seconds,
        seconds=elapsed,
        predicted_work=sum(segment.predicted_seconds for segment in plan.segments),
        work=sum(one.seconds for one in workers),
        packing=sum(one.packing for one in workers),
        data_wait=sum(one.data_wait for one in workers),
        latency=sum(one.latency for one in workers),
        unsent=max(0.0, min((answer.sent for answer in answers), default=submitted) - submitted),
    )


def _start(answer: TimedRecord | None, offsets: Mapping[str, ClockOffset]) -> float:
    if answer is None:
        return float("inf")
    timing = answer.record.timing
    return timing.began + offsets[answer.record.worker].seconds if timing.began else answer.sent


def _segment_run(
    plan: Plan,
    index: int,
    answer: TimedRecord,
    offsets: Mapping[str, ClockOffset],
    submitted: float,
    made: Mapping[int, SegmentRun],
    free: Mapping[int, tuple[float, int]],
) -> SegmentRun:
    """Return one segment as it ran; those that ran before it are made."""
    record, timing, segment = answer.record, answer.record.timing, plan.segments[index]
    sent, came, start = answer.sent - submitted, answer.came - submitted, _start(answer, offsets) - submitted
    end = min(came, start + timing.inputs + timing.steps + timing.outputs) if timing.began else came
    idle_since, before = free.get(segment.worker, (0.0, -1))
    sources = {source for source, _ in segment.imports} | set(segment.after)
    data, source = max(((made[one].end, one) for one in sources if one in made), default=(0.0, -1))
    could = max(sent, idle_since, data)
    return SegmentRun(
        index=index,
        worker=segment.worker,
        status=record.status,
        predicted=segment.predicted_seconds,
        seconds=timing.steps,
        inputs=timing.inputs,
        outputs=timing.outputs,
        sent=sent,
        start=start,
        end=end,
        came=came,
        data_wait=max(0.0, min(data, start) - max(idle_since, sent)),
        latency=max(0.0, start - could),
        held_by=source if data > idle_since else before,
        bytes_out=sum(size for size, _ in record.exports),
        saved_bytes=sum(saved for _, saved in record.exports),
        nodes=tuple((node, start + offset, seconds) for node, offset, seconds in timing.nodes),
    )


def _missing_segment(plan: Plan, index: int, elapsed: float, status: str) -> SegmentRun:
    segment = plan.segments[index]
    replaced = not segment.nodes
    elapsed = 0.0 if replaced else elapsed
    return SegmentRun(
        index=index, worker=segment.worker, status="replaced" if replaced else status,
        predicted=segment.predicted_seconds, seconds=0.0, inputs=0.0,
        outputs=0.0, sent=elapsed, start=elapsed, end=elapsed, came=elapsed, data_wait=0.0, latency=0.0,
        held_by=-1, bytes_out=0, saved_bytes=0, nodes=(),
    )  # fmt: skip


def _worker_run(name: str, ran: Sequence[SegmentRun], stored: int, peaks: Sequence[tuple[str, int, int]]) -> WorkerRun:
    return WorkerRun(
        name=name,
        segments=len(ran),
        predicted=sum(one.predicted for one in ran),
        seconds=sum(one.seconds for one in ran),
        packing=sum(one.inputs + one.outputs for one in ran),
        data_wait=sum(one.data_wait for one in ran),
        latency=sum(one.latency for one in ran),
        peak_stored=stored,
        peaks=tuple(peaks),
    )


def _peak(device: str, worker: int, made: Mapping[int, SegmentRun], answers: Mapping[int, TimedRecord]) -> int:
    """Return the most bytes that values on a worker held in one memory."""
    mine = [dict(answers[one.index].record.peaks) for one in made.values() if one.worker == worker]
    return max([peaks.get(device, 0) for peaks in mine], default=0)


def _worker_transfers(plan: Plan, made: Mapping[int, SegmentRun], size: ExportSizes) -> tuple[WorkerTransfer, ...]:
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for target in sorted(made):
        for source, export in plan.segments[target].imports:
            if plan.segments[source].worker != plan.segments[target].worker:
                values = len(plan.segments[source].exports[export].values)
                found.setdefault((target, source), []).append((size(source, export), values))
    return tuple(
        WorkerTransfer(source, plan.segments[source].worker, target, sum(b for b, _ in items), sum(v for _, v in items))
        for (target, source), items in found.items()
    )
