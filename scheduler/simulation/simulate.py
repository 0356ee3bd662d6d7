"""The simulator: `simulate` runs plans in virtual time, `what_if` plans and simulates a graph for other machines.

It checks the arguments, draws the jitter and starts a `VirtualDriver`, which passes events to the real state machine
and models driver, links and client. Equal arguments give equal results. Randomness comes from the generator or seed
that is passed in, drawn per segment in plan order, so that simulations that differ in something else have equal jitter.

The model of a worker: it runs one segment at a time, for the call and the predicted time of its nodes over its speed.
With `in_order` it runs segments in the order in which they were commanded, waiting for the inputs of the next one, as
plans predict; without, it takes of those whose inputs have arrived one of the earliest run, the one with the highest
priority, as workers do (H13). Objects are sent as soon as they are made or, if that is later, their reader is
commanded; links do not slow each other down. The client holds all kept values until the last run is over and then
drops them; afterwards the machine must have forgotten everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count, cycle
from math import inf

import numpy as np

from raygrad.errors import PlanError
from raygrad.proto.ir.graph import DEVICE, Graph

from ..machine.machine import DEFAULT_WINDOW, Machine
from ..model.costs import Costs
from ..model.plan import Cluster, WorkerSpec
from ..planning.planner import Planned, make_plan
from .node_durations import NodeDurations
from .scenario import (
    Failure,
    ObjectLoss,
    SimulatedRun,
    VirtualLink,
    VirtualSubmission,
    WhatIf,
    WorkerDrain,
    WorkerLoss,
    as_submissions,
)
from .virtual_event_loop import VirtualDriver


def simulate(
    planned: Planned | VirtualSubmission | Sequence[VirtualSubmission],
    cluster: Cluster,
    costs: Costs,
    *,
    speeds: Sequence[float] | None = None,
    failures: Sequence[Failure] = (),
    jitter: float = 0.0,
    seed: int | np.random.Generator = 0,
    links: Mapping[tuple[int, int], VirtualLink] | None = None,
    dispatch_seconds: float = 0.0,
    in_order: bool = True,
    window: int = DEFAULT_WINDOW,
    recovery_time: float = inf,
    watch: Callable[[Machine], None] | None = None,
    node_seconds: Sequence[Sequence[float]] | None = None,
    withdraw_seconds: float | None = None,
    retries: int = 0,
    restart_seconds: float | None = None,
) -> SimulatedRun:
    """Return how the submissions, numbered from 0, would run on the cluster.

    `speeds` has one factor per worker: work of t seconds takes t / speed there. `jitter` multiplies the time of each
    segment by a log-normal factor of that standard deviation (of its logarithm). `links` names the pairs (from, to)
    of workers that are not joined as the costs say. `dispatch_seconds` is what the driver takes per command to a
    worker, one after the other. `recovery_time` is the machine's. `watch` is called with the machine after every event.

    `node_seconds` has, per submission, the time that each node takes instead of the predicted one; `jitter` is 0 then.
    With `withdraw_seconds` plans that turn out wrong are revised while they run (`machine.revision`): so long after the
    command workers withdraw what has not started. Planning takes no time. `retries` is the machine's; with
    `restart_seconds` another process takes the place of a worker that died, after so long.

    Raises PlanError if the arguments do not fit together; InvariantViolation if the machine does what it must not, or
    if nothing can go on: both are bugs.
    """
    submissions = as_submissions(planned)
    speed = _speeds(speeds, cluster)
    _check(submissions, cluster, failures, links or {}, jitter, dispatch_seconds)
    generator = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
    factors = [
        np.exp(jitter * generator.standard_normal(len(one.planned.plan.segments))).tolist()
        if jitter
        else [1.0] * len(one.planned.plan.segments)
        for one in submissions
    ]
    nodes = [None] * len(submissions) if node_seconds is None else node_seconds
    world = VirtualDriver(
        machine=Machine(window=window, recovery_time=recovery_time, retries=retries),
        submissions=submissions,
        cluster=cluster,
        costs=costs,
        speed=speed,
        durations=[
            NodeDurations(one.planned, costs, factor, taken)
            for one, factor, taken in zip(submissions, factors, nodes, strict=True)
        ],
        withdraw_seconds=withdraw_seconds,
        restart_seconds=restart_seconds,
        links=dict(links or {}),
        dispatch_seconds=dispatch_seconds,
        in_order=in_order,
        watch=watch,
    )
    world.expect(failures, generator)
    return world.run()


def what_if(
    graph: Graph,
    costs: Costs,
    *,
    workers: int,
    gpus: int = 0,
    like: Cluster | None = None,
    seed: int = 0,
    jitter: float = 0.0,
    dispatch_seconds: float = 0.0,
    speeds: Sequence[float] | None = None,
) -> WhatIf:
    """Plan a graph for `workers` workers, the first `gpus` of which have a GPU as well, and simulate the plan there.

    What is not said is as in `like`: where saved values are, and the limits of memory, those of its workers in turn.
    Externals are taken to come with the calls, and every worker to have the resources that nodes ask for. Raises
    PlanError if there are fewer workers than GPUs, or nothing can run there.
    """
    if not 0 <= gpus <= workers:
        raise PlanError(f"{gpus} GPUs need as many workers; there are {workers}")
    asked: dict[str, float] = {}
    for demand in graph.demands:
        for name, amount in demand.needs:
            if not name.startswith(DEVICE):
                asked[name] = max(asked.get(name, 0.0), amount)
    kinds = [("cpu", "cuda") if index < gpus else ("cpu",) for index in range(workers)]
    resources = tuple(sorted(asked.items()))
    like = Cluster.of(1) if like is None else like
    cluster = Cluster(
        tuple(
            [
                WorkerSpec(f"worker {index}", kind, one.memory, one.gpu_memory, resources=resources)
                for index, (kind, one) in enumerate(zip(kinds, cycle(like.workers), strict=False))
            ]
        ),
        like.saved_stays,
    )
    planned = make_plan(graph, (-1,) * len(graph.externals), costs, cluster, seed, b"")
    simulated = simulate(
        planned, cluster, costs, speeds=speeds, jitter=jitter, seed=seed, dispatch_seconds=dispatch_seconds
    )
    return WhatIf(planned, simulated)


def _speeds(speeds: Sequence[float] | None, cluster: Cluster) -> list[float]:
    if speeds is None:
        return [1.0] * len(cluster.workers)
    if len(speeds) != len(cluster.workers) or min(speeds, default=1.0) <= 0:
        raise PlanError(f"speeds must be {len(cluster.workers)} positive numbers, one per worker, not {speeds}")
    return list(speeds)


def _check(
    submissions: Sequence[VirtualSubmission],
    cluster: Cluster,
    failures: Sequence[Failure],
    links: Mapping[tuple[int, int], VirtualLink],
    jitter: float,
    dispatch_seconds: float,
) -> None:
    """Raise PlanError, saying what is wrong, unless the arguments of a simulation fit together."""
    workers = len(cluster.workers)
    if min(jitter, dispatch_seconds) < 0:
        raise PlanError(f"jitter and dispatch_seconds must not be negative, got {jitter} and {dispatch_seconds}")
    before = 0.0
    for run, one in zip(count(), submissions):
        if len(one.planned.plan.workers) > workers:
            raise PlanError(f"submission {run} is planned for {len(one.planned.plan.workers)} workers, not {workers}")
        if one.at < before:
            raise PlanError(f"submission {run} comes at {one.at}, before the one that precedes it")
        before = one.at
        if one.residency and len(one.residency) != len(one.external_bytes):
            raise PlanError(f"submission {run} has {len(one.residency)} residencies: each external needs its bytes")
        for source in one.sources:
            if source is not None and not 0 <= source[0] < run:
                raise PlanError(f"submission {run} reads from submission {source[0]}, which does not precede it")
            if source is not None and source[1] not in submissions[source[0]].planned.plan.kept:
                raise PlanError(f"submission {run} reads value {source[1]} of submission {source[0]}: not kept")
    for pair, link in links.items():
        if not (0 <= min(pair) and max(pair) < workers) or link.latency < 0 or link.bandwidth <= 0:
            raise PlanError(f"{link} from worker {pair[0]} to {pair[1]} of {workers} is no link")
    for failure in failures:
        if isinstance(failure, WorkerLoss | WorkerDrain):
            if not 0 <= failure.worker < workers or (failure.at is not None and failure.at < 0):
                raise PlanError(f"{failure} names no worker of {workers}, or no time")
        elif isinstance(failure, ObjectLoss):
            if failure.at < 0 or not 0 <= failure.share <= 1:
                raise PlanError(f"{failure} names no time, or no share from 0 to 1")
        elif not 0 <= failure.run < len(submissions) or not (
            0 <= failure.segment < len(submissions[failure.run].planned.plan.segments)
        ):
            raise PlanError(f"{failure} names no segment of the submissions")
