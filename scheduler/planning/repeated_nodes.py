"""Nodes that a recovery runs again while what they had returned is still in use: both times have to agree (H2).

The recovery planner asks, once it has found what has to run. Something of an earlier attempt is in use if it is left,
if the client has it, or if a node has read it whose own results are in use. The driver compares the fingerprints of the
two attempts at such a node, and fails the run if they differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from raygrad.proto.ir.graph import first_outputs
from raygrad.proto.ir.nodes import FunctionCall, Node

from ..model.progress import RunRemains
from ..model.reading_order import reading_order
from .plan_continuation import values_left
from .planner import Planned

MOST_OPENED: Final = 1 << 10
"""More outputs than an open-ended node returns."""


def nodes_in_use(
    planned: Planned,
    remains: RunRemains,
    running: Collection[int],
    again: Collection[int],
    got: Collection[int],
    read_later: Collection[int],
) -> frozenset[int]:
    """Return those of the nodes that run `again` of which something is in use that they returned before.

    Args:
        planned: the run's graph, and its plan so far.
        remains: what is left of the run.
        running: all nodes that are to run.
        again: those of them that have run, or are running.
        got: values that the client has got, or that runs have read which are forgotten.
        read_later: values that nodes of later runs have read whose results are in use.
    """
    graph, plan = planned.graph, planned.plan
    first, left = first_outputs(graph), values_left(plan, remains)
    readers = _readers(planned, remains)
    used: set[int] = set()
    total = len(graph.externals) + sum([len(node.outputs) for node in graph.nodes])
    opened = [value for value in {*left, *got, *read_later} if value >= total]  # made by an open-ended node
    for node in reversed(reading_order(graph, sorted(again))):
        made = [*range(first[node], first[node] + len(graph.nodes[node].outputs))]
        if graph.open_ended and node == len(graph.nodes) - 1:
            made += opened
        for value in made:
            mine = value in left or value in got or value in read_later
            if mine or any([one not in running or one in used for one in readers.get(value, ())]):
                used.add(node)
                break
    return frozenset(used)


def externals_in_use(
    planned: Planned, remains: RunRemains, running: Collection[int], used: Collection[int]
) -> set[int]:
    """Return the external inputs that nodes of a run have read whose results are in use: those that do not run again,
    and those `used`."""
    nodes = planned.graph.nodes
    counted = [node for node in _have_run(planned, remains) if node not in running or node in used]
    return {value for node in counted for value in nodes[node].inputs if 0 <= value < len(planned.graph.externals)}


class ComputedFrom(NamedTuple):
    """What of one run was computed from something."""

    values: set[int]
    segments: set[int]
    """Those that have made it, and have ended."""


def is_impure(node: Node) -> bool:
    """Tell whether a node says of itself that it may return something else when it runs again."""
    return isinstance(node, FunctionCall) and node.impure


def computed_from(
    runs: Mapping[int, tuple[Planned, RunRemains, Sequence[tuple[int, int] | None]]], number: int, node: int
) -> dict[int, ComputedFrom]:
    """Return what a node has returned, and all that has been computed from it so far: by run, later ones included.
    `runs` has their plans, what is left of them, and where their external inputs are from."""
    found: dict[int, ComputedFrom] = {}
    for run in sorted([one for one in runs if one >= number]):
        planned, remains, sources = runs[run]
        nodes = planned.graph.nodes
        first, total = first_outputs(planned.graph), len(sources) + sum([len(one.outputs) for one in nodes])
        values = {
            external
            for external, source in enumerate(sources)
            if source is not None and source[0] in found and source[1] in found[source[0]].values
        }
        if run != number and not values:
            continue
        made: set[int] = set()
        have_run = _have_run(planned, remains)
        for index in reading_order(planned.graph, sorted(have_run)):
            if (run, index) == (number, node) or not values.isdisjoint(nodes[index].inputs):
                made.add(index)
                values.update(range(first[index], first[index] + len(nodes[index].outputs)))
                if planned.graph.open_ended and index == len(nodes) - 1:
                    values.update(range(total, total + MOST_OPENED))
        ended = [one for one, _, _ in remains.progress.done if one not in remains.void]
        segments = {one for one in ended if not made.isdisjoint(planned.plan.segments[one].nodes)}
        found[run] = ComputedFrom({value for value in values if value >= len(sources)}, segments)
    return found


def _have_run(planned: Planned, remains: RunRemains) -> set[int]:
    """Return the nodes that have run, or are running, and whose results count."""
    progress, segments = remains.progress, planned.plan.segments
    begun = {*[index for index, _, _ in progress.done], *[index for index, _ in progress.running]}
    return {node for index in begun - remains.void for node in segments[index].nodes}


def _readers(planned: Planned, remains: RunRemains) -> Mapping[int, Sequence[int]]:
    """Return, per value, the nodes that have read it."""
    readers: dict[int, list[int]] = {}
    for node in _have_run(planned, remains):
        for value in planned.graph.nodes[node].inputs:
            readers.setdefault(value, []).append(node)
    return readers
