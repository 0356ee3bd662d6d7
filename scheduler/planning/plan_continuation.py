"""Continuation of a plan: new segments behind those that it has, for nodes that have not begun and are planned again.

The rest planner gives it the blocks of these nodes. All indices stay; segments that are replaced have no nodes any
more. New segments read what earlier ones have exported or pinned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from ..model.memory_spaces import HOST
from ..model.plan import Cluster, Export, InStore, OnWorker, Plan, Segment, ValueLocation
from ..model.priced_graph import PricedGraph
from ..model.progress import RunProgress, RunRemains
from ..segments.lowering import LazyPrograms
from ..segments.segmenter import Block
from ..segments.transfers import plan_transfers
from .planner import Planned


def continue_plan(
    planned: Planned,
    progress: RunProgress,
    residency: Sequence[int],
    cluster: Cluster,
    priced: PricedGraph,
    blocks: list[Block],
    owned: frozenset[int],
    remains: RunRemains | None = None,
) -> Planned:
    """Return the plan with new segments, one per block, behind those that it has. Of the values that they make those
    are kept that are `owned`.

    With `remains`, something of what the others have made was lost, and nodes of theirs may be planned again: what is
    there is read where it is.
    """
    plan, graph = planned.plan, planned.graph
    begun = {*[one for one, _, _ in progress.done], *[one for one, _ in progress.running]}
    there = _values_there(plan, begun) if remains is None else values_left(plan, remains)
    remaining = copy(priced)
    planned_again = {node for block in blocks for node in block.nodes}
    remaining.__dict__["maker"] = [
        maker if maker in planned_again and (remains is None or value not in there) else -1
        for value, maker in enumerate(priced.maker)
    ]
    homes = _homes(priced, plan, residency)
    remaining.graph = graph._replace(keep=tuple([one for one in graph.keep if one[0] in owned]))
    if remains is not None:
        homes = [
            remains.pins[value][1] if value >= len(graph.externals) and value in remains.pins else home
            for value, home in enumerate(homes)
        ]
    limited = frozenset(
        [worker for memory, some in plan.limits for worker, one in enumerate(some) if memory == HOST and one >= 0]
    )
    transfers = plan_transfers(remaining, blocks, homes, saved_stays=cluster.saved_stays, limited=limited)
    first, retired = len(plan.segments), {*progress.rest}
    segments = [
        _retired(one) if index in retired else _without_readers(one, retired) for index, one in enumerate(plan.segments)
    ]
    for index, one in enumerate(transfers.segments, first):
        made = _shifted(one, first, there, len(graph.externals))
        segments.append(made)
        for source, export in made.imports:
            if source < first:
                segments[source] = _with_reader(segments[source], export, index)
    node_worker = list(plan.node_worker)
    for block in blocks:
        for node in block.nodes:
            node_worker[node] = block.worker
    kept = {value: place for value, place in plan.kept.items() if place.segment not in retired}
    there_or_owned = owned if remains is None else owned | remains.alive  # nobody holds the others
    kept = {value: place for value, place in kept.items() if value in there_or_owned}
    kept.update((value, _later(place, first)) for value, place in transfers.kept.items())
    if remains is not None:
        kept.update(_exported_anyway(plan, there, owned))
    made_of = (plan.hash, progress, tuple(segments[first:]))
    revised = replace(
        plan,
        hash=blake2b(repr(made_of).encode(), digest_size=16).digest(),
        workers=tuple([worker.name for worker in cluster.workers]),
        segments=tuple(segments),
        node_worker=tuple(node_worker),
        kept=kept,
        headroom=tuple([(memory, (*rooms, *[-1] * len(blocks))) for memory, rooms in plan.headroom]),
    )
    return Planned(revised, LazyPrograms(graph, revised, planned.programs), graph)


def _exported_anyway(
    plan: Plan, left: Mapping[int, _Exported | int], owned: Collection[int]
) -> Iterator[tuple[int, ValueLocation]]:
    """Yield kept values that were pinned on a worker, and are left in an object that was made for others."""
    for value in owned:
        place = left.get(value)
        if isinstance(place, _Exported):
            position = plan.segments[place.segment].exports[place.export].values.index(value)
            yield value, InStore(place.segment, place.export, position)


class _Exported(NamedTuple):
    segment: int
    export: int


def values_left(plan: Plan, remains: RunRemains) -> dict[int, _Exported | int]:
    """Return what is left of values that segments have left for others, as `_values_there` does."""
    left: dict[int, _Exported | int] = {value: segment for value, (segment, _) in remains.pins.items()}
    for segment, number in remains.exports:
        exports = plan.segments[segment].exports
        left.update(dict.fromkeys(exports[number].values, _Exported(segment, number)))
    return left


def _values_there(plan: Plan, begun: set[int]) -> dict[int, _Exported | int]:
    """Return, per value that segments which have begun leave for others: its export, or else the segment that pins
    it."""
    there: dict[int, _Exported | int] = {}
    for index in begun:
        there.update(dict.fromkeys(plan.segments[index].pins, index))
    for index in begun:
        for number, export in enumerate(plan.segments[index].exports):
            there.update(dict.fromkeys(export.values, _Exported(index, number)))
    return there


def _homes(priced: PricedGraph, plan: Plan, residency: Sequence[int]) -> list[int]:
    """Return, per value, the worker that holds it or was to make it; -1 for one that comes with calls."""
    worker = plan.node_worker
    return [
        worker[maker] if maker >= 0 else (residency[value] if value < len(residency) else -1)
        for value, maker in enumerate(priced.maker)
    ]


def _retired(segment: Segment) -> Segment:
    """Return what is left of a segment that is replaced: its number, and its worker."""
    return Segment(segment.worker, (), (), (), (), (), (), (), 0, 0, 0, 0, 0, 0, 0.0)


def _without_readers(segment: Segment, retired: set[int]) -> Segment:
    """Return a segment whose exports name no retired readers."""
    if all(retired.isdisjoint(export.readers) for export in segment.exports):
        return segment
    exports = [
        export._replace(readers=tuple([one for one in export.readers if one not in retired]))
        for export in segment.exports
    ]
    return segment._replace(exports=tuple(exports))


def _with_reader(segment: Segment, number: int, reader: int) -> Segment:
    exports = list(segment.exports)
    exports[number] = exports[number]._replace(readers=(*exports[number].readers, reader))
    return segment._replace(exports=tuple(exports))


def _shifted(segment: Segment, first: int, there: dict[int, _Exported | int], externals: int) -> Segment:
    """Return a new segment with its number among all, and with what it reads of those that have begun: imports of what
    these export; what they pin stays among its externals, under its value id."""
    imports = {(first + source, export) for source, export in segment.imports}
    own: list[int] = []
    after = {first + one for one in segment.after}
    for value in segment.externals:
        place = there.get(value) if value >= externals else None
        if isinstance(place, _Exported):
            imports.add((place.segment, place.export))
        else:
            own.append(value)
    exports = [
        Export(one.values, tuple([first + reader for reader in one.readers]), one.saved, one.kept)
        for one in segment.exports
    ]
    return segment._replace(
        externals=tuple(own), imports=tuple(sorted(imports)), exports=tuple(exports), after=tuple(sorted(after))
    )


def _later(place: ValueLocation, first: int) -> ValueLocation:
    if isinstance(place, OnWorker):
        return OnWorker(place.worker, first + place.segment)
    return InStore(first + place.segment, place.export, place.position)
