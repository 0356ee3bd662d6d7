"""Simulations with faults, drawn from a seed: submissions, workers that die and come back, code that raises, clients
that read and drop values. What is demanded of them is in `Trial.check`.

They are plain data of a seed, of some milliseconds each, so that any number can be tried; `python -m
tests.scheduler.simulation.seeded_faults 0 20000` tries that many, and with `objects` after it, also objects that are
lost apart from workers: of what has ended before, not all can be made again then. With `impure`, some Functions return
something else each time, of which half say so; with `limits`, workers have little memory.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import Any

import numpy as np

from raygrad.errors import PlanError
from raygrad.proto.ir.graph import KEEP_FOR_RUNS, KEEP_IN_STORE, KEEP_ON_WORKER, Graph, makers
from raygrad.proto.ir.nodes import Load
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, OnWorker
from raygrad.scheduler.planning.planner import Planned, make_plan
from raygrad.scheduler.simulation.node_durations import NodeDurations
from raygrad.scheduler.simulation.scenario import (
    Failure,
    ObjectLoss,
    SegmentRaise,
    SimulatedRun,
    VirtualSubmission,
    WorkerLoss,
)
from raygrad.scheduler.simulation.virtual_event_loop import VirtualDriver

from ..conftest import Builder
from ..machine.invariants import check_invariants

COSTS = (
    Costs(op_seconds=0.02, function_seconds=0.05, hook_seconds=0.02),
    Costs(op_seconds=0.02, function_seconds=0.05, hook_seconds=0.02, call_seconds=0.0, hop_seconds=0.0),
)

RETRIES = 64

LITTLE = 3 * 32
"""Bytes of memory that a limited worker has at first: three arrays."""


class Trial:
    """One simulation with faults."""

    def __init__(self, seed: int, *, objects: bool = False, impure: bool = False, limits: bool = False) -> None:
        """With `objects`, these are lost, too, apart from workers. With `impure`, some Functions are. With `limits`,
        workers have as little memory as each submission can do with."""
        draw = self.draw = random.Random(seed)
        self._impure_draw = random.Random(seed + 1) if impure else None
        self.impure: set[tuple[int, int]] = set()
        """(run, node) of each node that returns something else each time."""
        self.workers = draw.randint(1, 4)
        self.costs = draw.choice(COSTS)
        self.cluster = Cluster.of(self.workers).limited(LITTLE if limits else None)
        self.restart = draw.choice([0.0, 0.01, 0.2] if self.workers == 1 else [None, None, 0.0, 0.05, 0.5])
        self.submissions: list[VirtualSubmission] = []
        for _ in range(draw.choice([1, 1, 2, 3, 5, 9])):
            self._submit()
        horizon = sum([one.planned.plan.predicted_seconds for one in self.submissions]) + 0.02
        self.failures: list[Failure] = []
        for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
            self.failures.append(WorkerLoss(draw.randrange(self.workers), draw.uniform(0.0, horizon)))
        if (more := self._impure_draw) is not None:
            self.failures += [
                WorkerLoss(more.randrange(self.workers), more.uniform(0.0, 2 * horizon)) for _ in range(2)
            ]
        for _ in range(draw.choice([0, 1, 2]) if objects else 0):
            self.failures.append(ObjectLoss(draw.uniform(0.0, horizon), draw.choice([0.2, 0.5, 1.0])))
        if draw.random() < 0.1:
            run = draw.randrange(len(self.submissions))
            self.failures.append(
                SegmentRaise(run, draw.randrange(len(self.submissions[run].planned.plan.segments) or 1))
            )
        last = self._last_reads()
        kept = [(run, value) for run, one in enumerate(self.submissions) for value in one.planned.plan.kept]
        self.reads = [(draw.uniform(0.0, 2 * horizon), *one) for one in kept if draw.random() < 0.3]
        self.drops = [
            (last.get(one, self.submissions[one[0]].at) + draw.choice([0.0, horizon * draw.random()]), *one)
            for one in kept
            if draw.random() < 0.5
        ]
        self.options: dict[str, Any] = {
            "speed": [draw.choice([0.2, 1.0, 4.0]) for _ in range(self.workers)],
            "jitter": draw.choice([0.0, 1.5]),
            "in_order": draw.random() < 0.5,
            "dispatch_seconds": draw.choice([0.0, 1e-3]),
            "withdraw_seconds": draw.choice([0.0, 1e-3, 0.05]),
        }
        self.window = draw.choice([1, 2, 16])
        self.recovery_time = draw.choice([0.0, 0.1, float("inf")])

    def _submit(self) -> None:
        """Add a submission, which reads kept values of earlier ones."""
        draw = self.draw
        graph = self._graph(self.workers if draw.random() < 0.3 else 0)
        kept = [
            (run, value, place)
            for run, one in enumerate(self.submissions)
            for value, place in sorted(one.planned.plan.kept.items())
        ]
        sources: list[tuple[int, int] | None] = []
        residency: list[int] = []
        for _ in graph.externals:
            source = draw.choice(kept) if kept and draw.random() < 0.8 else None
            sources.append(source and source[:2])
            place = source[2] if source else None
            residency.append(place.worker if isinstance(place, OnWorker) else -1)
        planned = self._plan(graph, tuple(residency))
        at = (self.submissions[-1].at if self.submissions else 0.0) + draw.choice([0.0, 0.02, 0.3])
        self.submissions.append(VirtualSubmission(planned=planned, at=at, sources=tuple(sources)))

    def _plan(self, graph: Graph, residency: tuple[int, ...]) -> Planned:
        """Return the plan of a graph. Where memory is limited, there is more of it where it does not suffice."""
        while True:
            try:
                return make_plan(graph, residency, self.costs, self.cluster, 0, b"")
            except PlanError as error:
                if not error.needs:
                    raise
                memory = [one.memory for one in self.cluster.workers]
                for worker, _, size in error.needs:
                    memory[worker] = size
                self.cluster = self.cluster.limited(memory)

    def _graph(self, pins: int) -> Graph:
        draw = self.draw
        build = Builder(draw.randint(0, 3))
        arrays = list(range(build.values))
        contexts: list[int] = []

        def some() -> int:
            return draw.choice(arrays[-3:] or [-1]) if draw.random() < 0.6 else draw.choice([-1, *arrays])

        for _ in range(draw.randint(1, 18)):
            pin = draw.randint(-1, pins - 1) if pins and draw.random() < 0.3 else -1
            kind = draw.choice(["op", "op", "function", "function", "sum", "hook", "op_vjp", "function_vjp"])
            if kind == "function":
                inputs = [some() for _ in range(draw.randint(0, 3))]
                number = draw.randint(0, 2)
                says_so = self._draw_impure(len(build.nodes)) if number else False
                context, *outputs = build.function("f", *inputs, pin=pin, outputs=number, impure=says_so)
                contexts.append(context)
                arrays += outputs
            elif kind == "function_vjp" and contexts:
                arrays.append(build.function_vjp("f", draw.choice(contexts), some(), some(), some()))
            elif kind == "sum":
                arrays.append(build.sum(some(), some()))
            elif kind == "hook":
                arrays.append(build.hook("h", some()))
            elif kind == "op_vjp":
                arrays.append(build.op_vjp("g", [some() for _ in range(draw.randint(0, 2))], some(), pin=pin))
            else:
                arrays.append(build.op("o", *[some() for _ in range(draw.randint(0, 3))], pin=pin))
        for value in range(build.values):
            kinds = draw.choice(
                [(), (), (KEEP_ON_WORKER,), (KEEP_IN_STORE,), (KEEP_FOR_RUNS,), (KEEP_ON_WORKER, KEEP_IN_STORE)]
            )
            build.keep += [(value, keep) for keep in kinds]
        return build.graph()

    def _draw_impure(self, node: int) -> bool:
        """Draw whether a Function of the next submission is impure; return whether it says so."""
        draw = self._impure_draw
        if draw is None or draw.random() > 0.7:
            return False
        self.impure.add((len(self.submissions), node))
        return draw.random() < 0.5

    def _last_reads(self) -> dict[tuple[int, int], float]:
        """Return when the last run that reads each value is submitted."""
        return {source: one.at for one in self.submissions for source in one.sources if source is not None}

    def run(self) -> SimulatedRun:
        """Simulate it, with the machine's invariants checked after every event."""
        options = dict(self.options)
        generator = np.random.default_rng(self.draw.randrange(1 << 30))
        jitter = options.pop("jitter")
        durations = [
            NodeDurations(
                one.planned,
                self.costs,
                np.exp(jitter * generator.standard_normal(len(one.planned.plan.segments))).tolist(),
            )
            for one in self.submissions
        ]
        self.machine = Machine(window=self.window, recovery_time=self.recovery_time, retries=RETRIES)
        self.world = VirtualDriver(
            machine=self.machine,
            submissions=self.submissions,
            cluster=self.cluster,
            costs=self.costs,
            durations=durations,
            links={},
            watch=check_invariants,
            restart_seconds=self.restart,
            **options,
        )
        self.world.origins.impure = self.impure
        self.world.expect(self.failures, generator)
        submitted = [one.at for one in self.submissions]
        for at, run, value in self.reads:
            self.world.at(max(at, submitted[run]), self.world.request, run, value)
        for at, run, value in self.drops:
            self.world.at(at + 1e-9, self.world.let_go, run, value)
        return self.world.run()

    def check(self) -> SimulatedRun:
        """Simulate it, and check its outcome: every run ends, and ends well unless code raised or no worker is left;
        whatever ends well has run all of its nodes; nothing that can be made again is lost; without a death no node
        runs twice. Where there are impure nodes, a run may also end because one did not return the same again; and
        nothing is computed from two attempts at one (`Origins`).

        Raises AssertionError or InvariantViolation if something does not hold.
        """
        shown = self.run()
        finished = {run for run, _ in shown.finished}
        deaths = [one.failure for one in shown.failures if isinstance(one.failure, WorkerLoss)]
        raised = any([isinstance(one.failure, SegmentRaise) for one in shown.failures])
        none_left = self.restart is None and len({one.worker for one in deaths}) >= self.workers
        tied = any([node.pin >= 0 for one in self.submissions for node in one.planned.graph.nodes])
        objects = any([isinstance(one.failure, ObjectLoss) for one in shown.failures])
        impure = bool(self.impure) and bool(deaths or objects)
        may_fail = impure or raised or none_left or (tied and self.restart is None) or objects
        if not may_fail:
            assert finished == {*range(len(self.submissions))}, f"finished: {finished}"
            assert not shown.lost_values, f"lost: {shown.lost_values}"
        ran = Counter(
            (one.run, node)
            for one in shown.segments
            if one.status == "done"
            for node in shown.planned[one.run].plan.segments[one.segment].nodes
        )
        for run in finished:
            assert {node for one, node in ran if one == run} == {*range(len(self.submissions[run].planned.graph.nodes))}
        if not deaths and not objects:
            assert {*ran.values()} <= {1}
        self._check_loads(shown)
        return shown

    def _check_loads(self, shown: SimulatedRun) -> None:
        """Check that what was spilled was loaded on the same worker."""
        makers_of = [makers(one.graph) for one in shown.planned]
        homes: dict[tuple[int, int], int] = {}
        for one in sorted([one for one in shown.segments if one.status == "done"], key=lambda one: one.finish):
            planned = shown.planned[one.run]
            segment = planned.plan.segments[one.segment]
            for index in segment.nodes:
                node = planned.graph.nodes[index]
                homes[one.run, index] = segment.worker
                if isinstance(node, Load):
                    assert homes[one.run, makers_of[one.run][node.inputs[0]]] == segment.worker


def try_seeds(first: int, last: int, **kinds: bool) -> list[tuple[int, str]]:
    """Try seeds, with what `Trial` takes besides; return those that fail, with the error."""
    failing: list[tuple[int, str]] = []
    for seed in range(first, last):
        try:
            Trial(seed, **kinds).check()
        except Exception as error:  # whatever is wrong is told with its seed
            failing.append((seed, f"{type(error).__name__}: {error}"))
    return failing


if __name__ == "__main__":
    kinds = {kind: kind in sys.argv[3:] for kind in ("objects", "impure", "limits")}
    found = try_seeds(int(sys.argv[1]), int(sys.argv[2]), **kinds)
    for seed, error in found:
        print(seed, error[:300])
    print(f"{len(found)} of {int(sys.argv[2]) - int(sys.argv[1])} seeds fail")
