"""From a run-segment command to a call: its program, inline values, arguments, and the segments that must end before.

The driver builds each call here, from a plan and the places of its external inputs. This file alone decides how a kept
value of an earlier run is named to a worker. No state, nothing sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.program import Call, Item, Pinned, Program
from raygrad.scheduler.machine.commands import RunSegment
from raygrad.scheduler.model.plan import OnWorker, Plan, ValueLocation
from raygrad.scheduler.planning.planner import Planned

from .base import ObjectId, SegmentId, Work, value_object

LOOKAHEAD_SEGMENTS: Final = 256
"""The number of segments after a sent one among which programs to send along are looked for."""

LOOKAHEAD_NODES: Final = 1000
"""The most nodes that these programs have together."""


class SuppliedExternal(NamedTuple):
    """An external input whose value the client supplies with the call."""

    value: Any


class KeptExternal(NamedTuple):
    """An external input that is a kept value of an earlier run."""

    run: int
    value: int


External: TypeAlias = SuppliedExternal | KeptExternal


class GraphSubmission(NamedTuple):
    """A graph to run. `run` is larger than every run before it; `key` is the hash of `encoded`."""

    run: int
    graph: Graph
    encoded: bytes
    key: bytes
    externals: tuple[External, ...]
    paths: Mapping[int, tuple[Any, ...]] = MappingProxyType({})
    """By node of user code, see `Call.paths`."""


class LocatedExternal(NamedTuple):
    """A kept value of an earlier run with its place, looked up once, at submission."""

    run: int
    value: int
    place: ValueLocation
    worker: int
    """The worker that made it, or -1. Nodes colocated with it (a hook, a vjp) run there, too."""


def residency_of(external: SuppliedExternal | LocatedExternal) -> int:
    return external.worker if isinstance(external, LocatedExternal) else -1


def supplied_bytes(externals: Sequence[SuppliedExternal | LocatedExternal]) -> int:
    """Return the bytes of the arrays that the client supplies, each counted once."""
    arrays = {id(one.value): one.value for one in externals if isinstance(one, SuppliedExternal)}
    return sum([getattr(array, "nbytes", 0) for array in arrays.values()])


def work_of(
    command: RunSegment,
    planned: Planned,
    externals: Sequence[SuppliedExternal | LocatedExternal],
    unpinned: tuple[Pinned, ...],
    pins: Mapping[int, OnWorker] = MappingProxyType({}),
    paths: Mapping[int, tuple[Any, ...]] = MappingProxyType({}),
) -> Work:
    """Return the work for one segment of a plan.

    Args:
        command: the segment and its worker.
        planned: the plan of its run.
        externals: each external input of the graph.
        unpinned: pinned values that the worker releases with this call.
        pins: by value, where segments of a plan that was continued have pinned values: a segment planned later may read
            them among its external inputs.
        paths: see `GraphSubmission.paths`.
    """
    segment = planned.plan.segments[command.segment]
    headroom = tuple([(memory, rooms[command.segment]) for memory, rooms in planned.plan.headroom])
    limits = tuple(
        [(memory, sizes[command.worker]) for memory, sizes in planned.plan.limits if sizes[command.worker] > 0]
    )
    arguments = [ObjectId(command.run, source, export) for source, export in segment.imports]
    after = [SegmentId(command.run, source) for source in segment.after]
    values: list[Any] = []
    for number in segment.externals:
        if number >= len(externals):
            external = LocatedExternal(command.run, number, pins[number], -1)
        else:
            external = externals[number]
        if isinstance(external, SuppliedExternal):
            values.append(external.value)
        else:
            values.append(_reference(external, command.worker, arguments, after))
    key, program = key_of(planned.plan, command.segment), planned.programs[command.segment]
    drawn = tuple([paths[node] for _, node in program.user_code]) if paths else ()
    return Work(
        worker=command.worker,
        call=Call(command.run, command.segment, command.attempt, key, tuple(values), unpinned, headroom, limits, drawn),
        program=program,
        arguments=tuple(arguments),
        after=tuple(dict.fromkeys(after)),
        predicted_seconds=segment.predicted_seconds,
        priority=command.priority,
        upcoming=partial(upcoming_programs, planned, command.segment),
    )


def _reference(
    source: LocatedExternal, worker: int, arguments: list[ObjectId], after: list[SegmentId]
) -> Pinned | Item:
    """Return the reference of a call on `worker` to a kept value; append its object to `arguments` or its segment to
    `after`."""
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
    """Return the key by which calls name the program of a segment."""
    return plan.hash + segment.to_bytes(4, "little")


def upcoming_programs(planned: Planned, segment: int) -> Iterator[tuple[bytes, Program]]:
    """Yield (key, program) of the next segments on the worker of `segment`, few enough not to delay it."""
    segments, nodes = planned.plan.segments, 0
    for other in range(segment + 1, min(segment + 1 + LOOKAHEAD_SEGMENTS, len(segments))):
        if segments[other].worker == segments[segment].worker:
            nodes += len(segments[other].nodes)
            if nodes > LOOKAHEAD_NODES:
                return
            yield key_of(planned.plan, other), planned.programs[other]
