"""One submission as its user sees it: its plan, its progress, and what came back beside values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raygrad.scheduler.measured import Called, MeasuredCosts

if TYPE_CHECKING:
    from raygrad.proto.graph import Graph
    from raygrad.proto.program import Record
    from raygrad.scheduler.plan import Cluster, Plan

    from .session import Session


class Run:
    """A submitted graph.

    Attributes:
        number: the run's number in its session.
        plan: which worker runs which nodes, in which order, and what crosses between them.
        records: what has come back of its segments.
    """

    def __init__(self, session: Session, number: int, plan: Plan, graph: Graph, submitted: float) -> None:
        self._session = session
        self.number = number
        self.plan = plan
        self.nodes = len(graph.nodes)
        self.records: list[Record] = []
        self._graph = graph
        self._submitted = submitted
        """When planning began, on the session's clock, `time.monotonic`."""
        self._calls: dict[int, tuple[float, float]] = {}
        """Per segment that has ended, when its call was sent and when its record came, on the same clock."""
        self.finished = False
        self.failed = False
        self._emits: list[tuple[int, int, str, Any]] = []

    def take(self, record: Record, sent: float, came: float) -> None:
        """Enter what a segment has told."""
        self.records.append(record)
        self._calls[record.segment] = (sent, came)

    def teach(self, measured: MeasuredCosts, cluster: Cluster, here: str) -> None:
        """Tell a cost model what this run, which has ended well, took; `here` is the client's host."""
        calls = [Called(record, *self._calls[record.segment]) for record in self.records]
        measured.take(self._graph, self.plan, calls, cluster, here)

    @property
    def seconds(self) -> float | None:
        """Seconds from the first call to a worker to the last record, to be held against
        `plan.predicted_seconds`; None until it has finished. A record that came while nobody waited counts from when
        it was taken in."""
        if not self.finished or not self._calls:
            return None
        return max(came for _, came in self._calls.values()) - min(sent for sent, _ in self._calls.values())

    def done(self) -> bool:
        """Tell whether it has ended, well or not, without blocking."""
        self._session.poll()
        return self.finished or self.failed

    def wait(self, timeout: float | None = None) -> Run:
        """Wait until it has ended.

        Raises:
            WaitTimeout: `timeout` seconds have passed.
            The error that ended it, if the session has not raised it before.
        """
        self._session.wait_until(lambda: self.finished or self.failed, timeout)
        return self

    @property
    def emits(self) -> list[tuple[str, Any]]:
        """What `rg.emit` sent from this run, as (name, value), in the engine's order (H20)."""
        return [(name, value) for _, _, name, value in sorted(self._emits, key=lambda emit: emit[:2])]

    @property
    def hooks(self) -> dict[int, int]:
        """How many hooks fired in each process, by process id."""
        fired: dict[int, int] = {}
        for record in self.records:
            if record.hooks:
                fired[record.pid] = fired.get(record.pid, 0) + len(record.hooks)
        return fired

    def __repr__(self) -> str:
        state = "failed" if self.failed else "finished" if self.finished else "running"
        return f"<run {self.number}: {self.nodes} nodes in {len(self.plan.segments)} segments, {state}>"
