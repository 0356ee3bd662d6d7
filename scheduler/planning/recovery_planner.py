"""Planning of a recovery: which nodes have to run again to make what is needed and was lost, where, and in what order.

A node runs again if something that it makes is needed and not left: by a node that runs anyway, by a later run, or by
the client. The search goes from what is needed back to what is left, through runs that have ended too, latest first;
it runs nothing whose results are left. Then each run is planned again, earliest first, so that what it reads of others
is where these plans make it: its nodes are scheduled one by one around what runs, as by the rest planner, and
neighbours on one worker become segments.

Where memory is limited, the order for which that was proved ends with the loss. Workers keep their limits by themselves
then: they evict what a step does not read. New segments are small there, since what a call brings stays until it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from raygrad.proto.ir.graph import first_outputs, makers
from raygrad.proto.ir.nodes import UNDEFINED

from ..model.costs import Costs
from ..model.plan import Cluster, Plan
from ..model.plan_errors import PlanError
from ..model.priced_graph import PricedGraph
from ..model.progress import RunRemains
from ..model.reading_order import reading_order
from ..segments.segmenter import Block
from .plan_continuation import continue_plan, values_left
from .planner import Planned
from .repeated_nodes import computed_from, externals_in_use, is_impure, nodes_in_use
from .rest_planner import MIN_TASK_SECONDS, Rest, RestTask

SEGMENT_SHARE: Final = 0.05
"""The part of a worker's work that a new segment may have: others wait for what it makes until it ends."""

LIMIT_SHARE: Final = 0.25
"""The part of a worker's memory that the nodes of a new segment may need, if it is limited and they are several."""

Source = tuple[int, int] | None
"""(run, value) that an external input is, or None for one that the client supplies."""


class RunToRecover(NamedTuple):
    """A run of which something was lost, or may have to be made again for another one."""

    planned: Planned
    remains: RunRemains
    sources: Sequence[Source]
    """Per external input."""
    suspects: Collection[int] = ()
    """Nodes with which workers have died: each gets a segment of its own, so that the next death tells which it is."""
    seen: Collection[int] = ()
    """Values that the client has read, or that runs have which are forgotten."""
    here: Collection[int] = ()
    """Values that are with the driver, which the client may read at any time."""


class NodesToRun(NamedTuple):
    """What has to run of one run."""

    nodes: list[int]
    """Ascending."""
    again: tuple[int, ...]
    """Those of them that had run, or were running."""
    owned: frozenset[int]
    """Kept values that are kept again if they are made."""
    compared: frozenset[int] = frozenset()
    """Those of `again` of which something is in use that they returned before: they have to return it once more."""


_NOTHING: Final = NodesToRun([], (), frozenset())


class RecoveryOutcome(NamedTuple):
    """The outcome of planning a recovery."""

    hopeless: tuple[int, ...]
    """Runs that need something that cannot be made again, ascending."""
    waits_for: tuple[tuple[int, int], ...]
    """(run, segment) of what has to end before anything can be planned."""
    void: tuple[tuple[int, int], ...] = ()
    """(run, segment) of each whose results count no more, before anything can be planned."""


class FoundNodes(NamedTuple):
    """What has to run of all runs."""

    runs: dict[int, NodesToRun]
    """By run, ascending; those without nodes only if their plan is to change."""
    hopeless: frozenset[int]
    """Runs that need something that cannot be made again."""
    readers: Mapping[int, Collection[int]]
    """By run of which something is made again for others, these."""


def recover(
    runs: Mapping[int, RunToRecover],
    residency: Callable[[int], Sequence[int]],
    costs: Costs,
    cluster: Cluster,
    adopt: Callable[[int, Planned, NodesToRun], None],
) -> RecoveryOutcome:
    """Plan all that has to run, and pass each run's new plan to `adopt`, earliest first; or nothing, if something that
    runs has to end first.

    Args:
        runs: by number, ascending.
        residency: returns, per external input of a run, the worker that holds it or is to make it, by the plans that
            were adopted, or has made it; -1 if none does.
        costs: of nodes and transfers.
        cluster: the workers, those that died included.
        adopt: takes the run, its plan, and what runs again.
    """
    found = find_nodes_to_run(runs)
    in_use = tuple(
        [(number, segment) for number, nodes in found.runs.items() for segment in _in_use(runs[number], nodes)]
    )
    if in_use:
        return RecoveryOutcome((), in_use)
    hopeless = {*found.hopeless}
    compared = _compared(runs, found) if any([nodes.again for nodes in found.runs.values()]) else {}
    void = _void(runs, compared)
    if void:
        waits_for = [(number, one) for number, run in runs.items() for one, _ in run.remains.progress.running]
        return RecoveryOutcome((), tuple(waits_for), () if waits_for else void)
    for number, nodes in found.runs.items():
        if number in hopeless:
            continue
        dead = runs[number].remains.dead  # what one of these has made, and is there, is in the store
        homes = [-1 if home in dead else home for home in residency(number)]
        try:
            planned = plan_recovery(runs[number], nodes, homes, costs, cluster)
        except PlanError:
            hopeless |= _readers_of(number, found.readers)
            continue
        adopt(number, planned, nodes._replace(compared=compared.get(number, frozenset())))
    return RecoveryOutcome(tuple(sorted(hopeless)), ())


def _compared(runs: Mapping[int, RunToRecover], found: FoundNodes) -> dict[int, frozenset[int]]:
    """Return, by run, the nodes that run again while something is in use that they returned before."""
    compared: dict[int, frozenset[int]] = {}
    read_later: dict[int, set[int]] = {}
    for number in sorted(runs, reverse=True):
        run, nodes = runs[number], found.runs.get(number, _NOTHING)
        mine, running = (run.planned, run.remains), {*nodes.nodes}
        used = nodes_in_use(*mine, running, nodes.again, {*run.seen, *run.here}, read_later.get(number, ()))
        compared[number] = used
        for external in externals_in_use(*mine, running, used):
            source = run.sources[external]
            if source is not None:
                read_later.setdefault(source[0], set()).add(source[1])
    return compared


def _void(runs: Mapping[int, RunToRecover], compared: Mapping[int, Collection[int]]) -> tuple[tuple[int, int], ...]:
    """Return (run, segment) of what has run and was computed from what impure nodes had returned that run again. If a
    part of that cannot be made again, or was seen, there is none: the node has to return the same."""
    found: set[tuple[int, int]] = set()
    known = {number: (run.planned, run.remains, run.sources) for number, run in runs.items()}
    for number, nodes in compared.items():
        for node in [one for one in nodes if is_impure(runs[number].planned.graph.nodes[one])]:
            reached = computed_from(known, number, node)
            if all([_can_be_void(runs[run], some.values) for run, some in reached.items()]):
                found.update([(run, segment) for run, some in reached.items() for segment in some.segments])
    return tuple(sorted(found))


def _can_be_void(run: RunToRecover, values: Collection[int]) -> bool:
    """Tell whether values of a run can be made again, and the client has seen none of them."""
    return not run.remains.unrepeatable and {*run.seen}.isdisjoint(values)


def _in_use(run: RunToRecover, nodes: NodesToRun) -> list[int]:
    """Return the running segments that drop what is to be made again once they have ended: there can be only one value
    of a name on a worker."""
    graph, segments = run.planned.graph, run.planned.plan.segments
    first = first_outputs(graph)
    again = {first[node] + output for node in nodes.again for output in range(len(graph.nodes[node].outputs))}
    running = [index for index, _ in run.remains.progress.running]
    return [index for index in running if any([last and value in again for value, last in segments[index].unpins])]


def _readers_of(run: int, readers: Mapping[int, Collection[int]]) -> set[int]:
    """Return a run and all for which something of it was to be made again, directly or not."""
    reached = [run]
    for one in reached:
        reached.extend([reader for reader in readers.get(one, ()) if reader not in reached])
    return {*reached}


def find_nodes_to_run(runs: Mapping[int, RunToRecover]) -> FoundNodes:
    """Return what has to run of each run so that everything is there that is needed."""
    wanted: dict[int, set[int]] = {number: {*run.remains.wanted} for number, run in runs.items()}
    readers: dict[int, set[int]] = {}
    found: dict[int, NodesToRun] = {}
    hopeless: set[int] = set()
    for number in sorted(runs, reverse=True):
        run = runs[number]
        if not run.remains.damaged and not wanted[number]:
            continue
        nodes, externals, again = _nodes_of(run, wanted[number])
        found[number] = NodesToRun(nodes, again, run.remains.owned | wanted[number])
        for external in externals:
            source = run.sources[external]
            if source is None:
                continue
            other, value = source
            if other not in runs:
                hopeless.add(number)
            elif value in runs[other].remains.alive:
                continue
            elif runs[other].remains.unrepeatable:
                hopeless.add(number)
            else:
                wanted[other].add(value)
                readers.setdefault(other, set()).add(number)
    for number in sorted(hopeless):
        hopeless |= _readers_of(number, readers)
    return FoundNodes({number: found[number] for number in sorted(found)}, frozenset(hopeless), readers)


def _nodes_of(run: RunToRecover, wanted: Collection[int]) -> tuple[list[int], set[int], tuple[int, ...]]:
    """Return the nodes of a run that have to run, the external inputs that they read, and which have run before."""
    graph, plan, remains = run.planned.graph, run.planned.plan, run.remains
    first = len(graph.externals)
    maker = makers(graph)
    left = values_left(plan, remains)
    rest = {node for index in remains.progress.rest for node in plan.segments[index].nodes}
    nodes, externals = set(rest), set[int]()
    pending = [*rest]
    for value in [one for one in wanted if one not in left]:
        index = maker[value] if value < len(maker) else len(graph.nodes) - 1  # of an open-ended node
        if index not in nodes:
            nodes.add(index)
            pending.append(index)
    while pending:
        for value in graph.nodes[pending.pop()].inputs:
            if value < 0 or value in left:
                continue
            if value < first:
                externals.add(value)
            elif maker[value] not in nodes:
                nodes.add(maker[value])
                pending.append(maker[value])
    again = tuple(sorted(nodes - rest))
    return sorted(nodes), externals, again


def plan_recovery(
    run: RunToRecover, found: NodesToRun, residency: Sequence[int], costs: Costs, cluster: Cluster
) -> Planned:
    """Return the plan of a run with what has to run of it in new segments, and its programs. Pure.

    Raises PlanError if no worker that is left can run one of the nodes.
    """
    planned, progress = run.planned, run.remains.progress
    seconds = PricedGraph(planned.graph, costs).seconds
    worker = planned.plan.node_worker
    tasks = [RestTask(worker[node], [node], seconds[node]) for node in found.nodes]
    rest = Rest(planned, progress, residency, costs, cluster, tasks, run.remains.gone)
    listed = rest.schedule().listed if tasks else None
    blocks = [] if listed is None else _blocks(rest, rest.in_order(listed), run.suspects, _most_bytes(planned.plan))
    for block in blocks:
        if block.worker in run.remains.dead:
            raise PlanError(f"no worker that is left can run node {block.nodes[0]}: it is tied to a worker that died")
    return continue_plan(planned, progress, residency, cluster, rest.priced, blocks, found.owned, run.remains)


def _most_bytes(plan: Plan) -> dict[int, float]:
    """Return, per worker with a limit, the bytes that nodes of one block may read and make if it is to have several:
    what a call brings stays in memory until it ends."""
    most: dict[int, float] = {}
    for _, limits in plan.limits:
        for worker, limit in enumerate(limits):
            if limit >= 0:
                most[worker] = min(most.get(worker, inf), LIMIT_SHARE * limit)
    return most


def _blocks(
    rest: Rest, scheduled: Sequence[Block], alone: Collection[int], most_bytes: Mapping[int, float]
) -> list[Block]:
    """Return nodes, given in the order in which they are to start, in blocks: a node joins the latest block of its
    worker unless it reads from a later one, so that the order of the blocks is one in which all can run."""
    priced = rest.priced
    work = sum([priced.seconds[node] for block in scheduled for node in block.nodes])
    most = max(MIN_TASK_SECONDS, SEGMENT_SHARE * work / rest.workers)
    last = len(priced.graph.nodes) - 1 if priced.graph.open_ended else -1
    blocks: list[Block] = []
    latest: dict[int, int] = {}
    took: list[float] = []
    held: list[set[int]] = []
    block_of: dict[int, int] = {}
    worker_of = {node: one.worker for one in scheduled for node in one.nodes}
    for node in reading_order(priced.graph, [node for one in scheduled for node in one.nodes]):
        worker = worker_of[node]
        sources = [priced.maker[value] for value in priced.graph.nodes[node].inputs if value >= 0]
        needed = max([block_of.get(source, -1) for source in sources], default=-1)
        mine = latest.get(worker, -1)
        full = mine < 0 or took[mine] + priced.seconds[node] > most or blocks[mine].nodes[-1] in alone
        values: set[int] = set()
        if worker in most_bytes:
            made = range(priced.first[node], priced.first[node] + len(priced.graph.nodes[node].outputs))
            values = {*priced.graph.nodes[node].inputs, *made} - {UNDEFINED}
            full = full or sum([priced.size[value] for value in held[mine] | values]) > most_bytes[worker]
        if full or needed > mine or node == last or node in alone:
            mine = latest[worker] = len(blocks)
            blocks.append(Block(worker, []))
            took.append(0.0)
            held.append(set())
        held[mine] |= values
        blocks[mine].nodes.append(node)
        took[mine] += priced.seconds[node]
        block_of[node] = mine
    return blocks
