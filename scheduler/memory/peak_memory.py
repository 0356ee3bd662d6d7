"""Peak memory of a timed plan: the most bytes live on each worker, of all values, saved values and stored objects.

`explain` applies it to predicted times, `actual_run` to measured ones. A value lives on the worker that makes it from
the start of its node to the end of its last reader on any worker; on another worker that reads it, from the start of
the first segment there to the end of its last reader there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from raygrad.proto.ir.graph import KEEP_IN_STORE
from raygrad.proto.ir.nodes import Vjp
from raygrad.proto.ir.specs import ContextSpec

from ..model.plan import Plan
from ..model.priced_graph import PricedGraph
from ..segments.transfers import cotangent_bounds

FOREVER = float("inf")


class TimeSpan(Protocol):
    """Start and end of a segment, predicted or measured."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


class Peak(NamedTuple):
    """The most bytes live at one time on one worker."""

    bytes: int
    """Of all values."""
    saved: int
    """Of values made there that a vjp reads: contexts and residuals, in memory or in the object store."""
    stored: int
    """Of objects in the object store made there, which outlive their segment and its process."""


class Lifetime(NamedTuple):
    """Bytes live on a worker between two times."""

    worker: int
    born: float
    dead: float
    bytes: int


def peak_bytes(lifetimes: Iterable[Lifetime], workers: int) -> list[int]:
    """Return the most bytes live at once, per worker. At equal times deaths come before births."""
    changes: list[list[tuple[float, int]]] = [[] for _ in range(workers)]
    for worker, born, dead, size in lifetimes:
        changes[worker].append((born, size))
        changes[worker].append((dead, -size))
    most: list[int] = []
    for events in changes:
        events.sort()
        now = top = 0
        for _, change in events:
            now += change
            top = max(top, now)
        most.append(top)
    return most


def worker_peaks(
    priced: PricedGraph, plan: Plan, nodes: Sequence[tuple[float, float]], segments: Sequence[TimeSpan]
) -> list[Peak]:
    """Return the peak of each worker, from (start, end) of each node and the times of each segment."""
    values, saved = _value_lifetimes(priced, plan, nodes, segments)
    workers = len(plan.workers)
    stored = stored_lifetimes(
        plan, segments, lambda s, e: sum(priced.size[v] for v in plan.segments[s].exports[e].values)
    )
    rows = zip(peak_bytes(values, workers), peak_bytes(saved, workers), peak_bytes(stored, workers), strict=True)
    return [Peak(*row) for row in rows]


class ExportSizes(Protocol):
    """A function that returns the bytes of export `export` of segment `segment`."""

    def __call__(self, segment: int, export: int, /) -> int: ...


def stored_lifetimes(plan: Plan, segments: Sequence[TimeSpan], size: ExportSizes) -> list[Lifetime]:
    """Return the lifetime of each object of a plan in the store: from the end of the segment that makes it to the end
    of its last reader, or for ever if the client keeps it."""
    found: list[Lifetime] = []
    for index, segment in enumerate(plan.segments):
        for number, export in enumerate(segment.exports):
            readers = [segments[reader].end for reader in export.readers]
            dead = FOREVER if export.kept else max(readers, default=segments[index].end)
            found.append(Lifetime(segment.worker, segments[index].end, dead, size(index, number)))
    return found


def _value_lifetimes(
    priced: PricedGraph, plan: Plan, nodes: Sequence[tuple[float, float]], segments: Sequence[TimeSpan]
) -> tuple[list[Lifetime], list[Lifetime]]:
    """Return the lifetimes of all values, and of those that are saved for backward."""
    graph, maker, size, worker_of = priced.graph, priced.maker, priced.size, plan.node_worker
    last: dict[tuple[int, int], float] = {}  # per (value, worker), the end of its last reader there
    first: dict[tuple[int, int], float] = {}  # per (value, worker that did not make it), when it arrives there
    last_vjp: dict[int, float] = {}  # per value that is saved, the end of the last vjp that reads it
    for segment, span in zip(plan.segments, segments, strict=True):
        worker = segment.worker
        for index in segment.nodes:
            node, end = graph.nodes[index], nodes[index][1]
            for value in node.inputs:
                if value >= 0:
                    key = (value, worker)
                    last[key] = max(last.get(key, 0.0), end)
                    if maker[value] < 0 or worker_of[maker[value]] != worker:
                        first[key] = min(first.get(key, FOREVER), span.start)
            if node.depth and isinstance(node, Vjp):
                low, high = cotangent_bounds(node)
                for value in (*node.inputs[:low], *node.inputs[high:]):
                    if value >= 0 and maker[value] >= 0:
                        last_vjp[value] = max(last_vjp.get(value, 0.0), end)
    kept = dict(graph.keep)
    dead: dict[int, float] = dict.fromkeys(kept, FOREVER)
    for (value, _), end in last.items():
        if value not in kept:
            dead[value] = max(dead.get(value, 0.0), end)
    values = [Lifetime(worker, born, last[value, worker], size[value]) for (value, worker), born in first.items()]
    saved: list[Lifetime] = []
    for index, node in enumerate(graph.nodes):
        worker, (start, end) = worker_of[index], nodes[index]
        for value in range(priced.first[index], priced.first[index] + len(node.outputs)):
            values.append(Lifetime(worker, start, dead.get(value, end), size[value]))
            if isinstance(graph.specs[priced.spec[value]], ContextSpec) or kept.get(value) == KEEP_IN_STORE:
                saved.append(Lifetime(worker, start, dead.get(value, end), size[value]))
            elif value in last_vjp:
                saved.append(Lifetime(worker, start, last_vjp[value], size[value]))
    return values, saved
