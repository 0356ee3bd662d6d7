"""What a served session learns from its runs: how long plans took, what calls and links take, what runs under way show.

The client measures what nodes take, since it knows the arguments of calls, and sends that. The rest is measured here,
where plans are made, by the one clock that calls are timed with. As in every session, runs are learned from before the
next submission is planned, not as they end."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.program import Record
from raygrad.scheduler.model.measured_costs import MeasuredCosts, TimedRecord
from raygrad.scheduler.model.plan import Cluster, Plan


@dataclass(slots=True, eq=False)
class _TimedRun:
    """A run, and the calls of it that have ended."""

    graph: Graph
    plan: Plan
    alone: bool
    """No other run of the session was under way meanwhile."""
    revised: bool = False
    """Its rest was planned again while it ran."""
    calls: list[TimedRecord] = field(default_factory=list[TimedRecord])


class RunTimes:
    """What a session has to learn from its runs. Any thread may tell of them: one that cancels runs does; the session's
    thread submits and learns."""

    def __init__(self, measured: MeasuredCosts, host: str) -> None:
        """`host` is that of the driver, whose clock times calls."""
        self._measured = measured
        self._host = host
        self._lock = threading.Lock()
        """Guards what follows."""
        self._runs: dict[int, _TimedRun] = {}
        """By number, those under way."""
        self._arrived: list[tuple[_TimedRun, Record]] = []
        """Records of runs under way to learn from."""
        self._ended: list[_TimedRun] = []
        """Runs to learn from."""

    def submitted(self, number: int, graph: Graph, plan: Plan) -> None:
        """Note a run, with the graph that its plan runs."""
        with self._lock:
            for other in self._runs.values():
                other.alone = False
            self._runs[number] = _TimedRun(graph, plan, alone=not self._runs)

    def took(self, called: TimedRecord) -> None:
        """Note the record of a segment: of what it says no more than its times."""
        record, timing = called.record, called.record.timing
        timed = Record(*record[:7], (), (), (), (), (), (), (), timing=timing._replace(nodes=()))
        with self._lock:
            run = self._runs.get(record.run)
            if run is not None:
                run.calls.append(called._replace(record=timed))
                if timing.nodes:
                    self._arrived.append((run, timed._replace(timing=timing)))

    def replanned(self, number: int, plan: Plan) -> None:
        """Note that a run goes on with another plan."""
        with self._lock:
            run = self._runs.get(number)
            if run is not None:
                run.plan, run.revised = plan, True

    def ended(self, number: int, *, well: bool) -> None:
        """Note that a run is over."""
        with self._lock:
            run = self._runs.pop(number, None)
            if run is not None and well:
                self._ended.append(run)

    def learn(self, cluster: Cluster) -> None:
        """Learn from what has arrived, and from the runs that have ended well."""
        with self._lock:
            arrived, self._arrived = self._arrived, []
            ended, self._ended = self._ended, []
        for run, record in arrived:
            self._measured.arrived(run.graph, run.plan, record)
        for run in ended:
            if self._measured.wants(run.plan):
                alone = run.alone and not run.revised
                self._measured.take_calls(run.graph, run.plan, run.calls, cluster, self._host, alone=alone)
