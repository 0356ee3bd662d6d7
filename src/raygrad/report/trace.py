"""The trace of a run for Chrome's and Perfetto's viewers: the "JSON array" form of the Trace Event Format.

`run.trace` writes it, from the facts of `scheduler.explain.actual_run`. Each worker is a process with two threads: what
it runs (segments, and in them unpacking, the long nodes, packing) and what it waits for. The client is process 0.
Arrows go from the segment that makes a value to the one on another worker that reads it. Times are microseconds since
the submission.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from raygrad.scheduler.explain.actual_run import RunFacts, SegmentRun
from raygrad.scheduler.model.plan import Plan

from . import figures
from .explanation import counts
from .shown import LabelledGraph

Event: TypeAlias = dict[str, Any]

CLIENT: Final = 0
"""The client's process; worker i is process i + 1."""
RUNS, WAITS = 1, 2
"""A worker's threads."""

MIN_SECONDS: Final = 1e-9
"""Seconds of an idle time that is worth an event."""


def trace(number: int, plan: Plan, run: RunFacts, graph: LabelledGraph) -> dict[str, Any]:
    """Return a run's trace, ready for `json.dump`."""
    events = _names(run)
    events.append(_span(CLIENT, RUNS, f"run {number}", "run", 0.0, run.seconds, nodes=len(graph.names)))
    if run.unsent > MIN_SECONDS:
        events.append(_span(CLIENT, RUNS, "plan and send", "client", 0.0, run.unsent))
    ran = [one for one in run.segments if one.recorded]
    for one in ran:
        events += _segment(one, plan, graph)
        events += _waits(one, ran)
    present = {one.index: one for one in ran}
    flows = [one for one in run.moved if one.source in present and one.target in present]
    for identity, one in enumerate(flows, 1):
        source, target = present[one.source], present[one.target]
        name = f"{figures.size(one.bytes)} from segment {one.source} to segment {one.target}"
        args = {"bytes": one.bytes, "values": one.values}
        common = {"name": name, "cat": "transfer", "id": identity, "tid": RUNS, "args": args}
        comes = max(target.start, source.end)
        events.append({**common, "ph": "s", "pid": source.worker + 1, "ts": _at(source.end)})
        events.append({**common, "ph": "f", "bp": "e", "pid": target.worker + 1, "ts": _at(comes)})
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"run": number, "producer": "raygrad"}}


def _names(run: RunFacts) -> list[Event]:
    """Return the events that name processes and threads, and put them into order."""
    events: list[Event] = []
    names = ["client", *[worker.name for worker in run.workers]]
    for process, name in enumerate(names):
        threads = {RUNS: "runs" if process == CLIENT else "segments", WAITS: "waits"}
        events.append(_meta(process, 0, "process_name", name=name))
        events.append(_meta(process, 0, "process_sort_index", sort_index=process))
        events += [
            _meta(process, thread, "thread_name", name=said)
            for thread, said in threads.items()
            if process != CLIENT or thread == RUNS
        ]
    return events


def _segment(one: SegmentRun, plan: Plan, graph: LabelledGraph) -> list[Event]:
    """Return a segment with what it did inside."""
    given, process = plan.segments[one.index], one.worker + 1
    made = [
        _span(
            process,
            RUNS,
            f"segment {one.index}",
            "segment",
            one.start,
            one.end,
            nodes=counts(given.forward_nodes, given.vjp_nodes + given.sum_nodes, given.hook_nodes),
            mainly=figures.commonest(graph.label(node) for node in given.nodes),
            status=one.status,
            predicted_ms=one.predicted * 1e3,
            actual_ms=one.seconds * 1e3,
            sent_ms=one.sent * 1e3,
            record_came_ms=one.came * 1e3,
            bytes_out=one.bytes_out,
        )
    ]
    if one.inputs > MIN_SECONDS:
        made.append(_span(process, RUNS, "unpack", "packing", one.start, min(one.end, one.start + one.inputs)))
    for node, start, seconds in one.nodes:
        end = min(one.end, start + seconds)
        more = {"place": graph.places[node]} if graph.places[node] else {}
        made.append(_span(process, RUNS, graph.label(node), graph.kinds[node], min(start, end), end, node=node, **more))
    if one.outputs > MIN_SECONDS:
        made.append(_span(process, RUNS, "pack", "packing", max(one.start, one.end - one.outputs), one.end))
    return made


def _waits(one: SegmentRun, ran: list[SegmentRun]) -> list[Event]:
    """Return what the worker waited for before a segment: another segment, then the call."""
    before = max((other.end for other in ran if other.worker == one.worker and other.start < one.start), default=0.0)
    called = max(before, one.start - one.latency)
    made: list[Event] = []
    if one.data_wait > MIN_SECONDS:
        name = f"wait for segment {one.held_by}"
        made.append(_span(one.worker + 1, WAITS, name, "wait", max(before, called - one.data_wait), called))
    if one.start - called > MIN_SECONDS:
        made.append(_span(one.worker + 1, WAITS, f"call of segment {one.index}", "call", called, one.start))
    return made


def _span(process: int, thread: int, name: str, kind: str, start: float, end: float, /, **args: Any) -> Event:
    """Return a complete event. Its duration is the difference of rounded times, so that what is inside stays inside."""
    begin = _at(start)
    duration = round(max(0.0, _at(end) - begin), 3)
    return {
        "name": name, "cat": kind, "ph": "X", "pid": process, "tid": thread, "ts": begin, "dur": duration, "args": args,
    }  # fmt: skip


def _meta(process: int, thread: int, called: str, /, **args: Any) -> Event:
    return {"name": called, "ph": "M", "pid": process, "tid": thread, "ts": 0, "args": args}


def _at(seconds: float) -> float:
    """Return a time in microseconds, to the nanosecond."""
    return round(max(0.0, seconds) * 1e6, 3)
