"""From a run-segment command to a call: its program, inline values, arguments, and the segments that must end before.

The driver builds each call here, from a plan and the places of its external inputs. This file alone decides how a kept
value of an earlier run is named to a worker. No state, nothing sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.program import Call, Item, Pinned, Program
from raygrad.scheduler.machine.commands import RunSegment
from raygrad.scheduler.model.plan import OnWorker, Plan, ValueLocation
from raygrad.scheduler.planning.planner import Planned

from .base import ObjectId, SegmentId, Work, value_object

LOOKAHEAD_SEGMENTS: Final = 256
"""So many segments are looked through, from one that is sent, for others whose programs can go along."""

LOOKAHEAD_NODES: Final = 1000
"""And so many nodes these programs have at most."""


class SuppliedExternal(NamedTuple):
    """An external that the client supplies."""

    value: Any


class KeptExternal(NamedTuple):
    """An external that is a kept value of an earlier run."""

    run: int
    value: int


External: TypeAlias = SuppliedExternal | KeptExternal


class GraphSubmission(NamedTuple):
    """A graph to be run. `run` is larger than every run before it; `key` is the hash of `encoded`."""

    run: int
    graph: Graph
    encoded: bytes
    key: bytes
    externals: tuple[External, ...]


class LocatedExternal(NamedTuple):
    """A kept value of an earlier run, and where it is: known when it is named, and not to be looked up later."""

    run: int
    value: int
    place: ValueLocation
    worker: int
    """The worker that made it, or -1: nodes that belong to it run there too (a hook, a vjp)."""


def residency_of(external: SuppliedExternal | LocatedExternal) -> int:
    return external.worker if isinstance(external, LocatedExternal) else -1


def work_of(
    command: RunSegment,
    planned: Planned,
    externals: Sequence[SuppliedExternal | LocatedExternal],
    unpinned: tuple[Pinned, ...],
) -> Work:
    """Return what is to be done for a segment of a plan.

    Args:
        command: which, and where.
        planned: its plan.
        externals: what each external of the graph is.
        unpinned: what the worker is to let go of.
    """
    segment = planned.plan.segments[command.segment]
    beside = tuple([(memory, rooms[command.segment]) for memory, rooms in planned.plan.headroom])
    limits = tuple(
        [(memory, sizes[command.worker]) for memory, sizes in planned.plan.limits if sizes[command.worker] > 0]
    )
    arguments = [ObjectId(command.run, source, export) for source, export in segment.imports]
    after = [SegmentId(command.run, source) for source in segment.after]
    values: list[Any] = []
    for number in segment.externals:
        external = externals[number]
        if isinstance(external, SuppliedExternal):
            values.append(external.value)
        else:
            values.append(_reference(external, command.worker, arguments, after))
    key = key_of(planned.plan, command.segment)
    return Work(
        worker=command.worker,
        call=Call(command.run, command.segment, command.attempt, key, tuple(values), unpinned, beside, limits),
        program=planned.programs[command.segment],
        arguments=tuple(arguments),
        after=tuple(dict.fromkeys(after)),
        predicted_seconds=segment.predicted_seconds,
        upcoming=partial(upcoming_programs, planned, command.segment),
    )


def _reference(
    source: LocatedExternal, worker: int, arguments: list[ObjectId], after: list[SegmentId]
) -> Pinned | Item:
    """Return how a call on `worker` names a kept value of an earlier run; note what it reads and waits for."""
    run, value, place, _ = source
    if isinstance(place, OnWorker):
        if place.worker == worker:
            after.append(SegmentId(run, place.segment))
            return Pinned(run, value)
        name, position = value_object(run, value), 0
    else:
        name, position = ObjectId(run, place.segment, place.export), place.position
    if name not in arguments:
        arguments.append(name)
    return Item(arguments.index(name), position)


def key_of(plan: Plan, segment: int) -> bytes:
    """Return what calls name the program of a segment by."""
    return plan.hash + segment.to_bytes(4, "little")


def upcoming_programs(planned: Planned, segment: int) -> Iterator[tuple[bytes, Program]]:
    """Yield, by key, programs of the segments that follow one on its worker; not so many that it waits for them."""
    segments, nodes = planned.plan.segments, 0
    for other in range(segment + 1, min(segment + 1 + LOOKAHEAD_SEGMENTS, len(segments))):
        if segments[other].worker == segments[segment].worker:
            nodes += len(segments[other].nodes)
            if nodes > LOOKAHEAD_NODES:
                return
            yield key_of(planned.plan, other), planned.programs[other]
