"""The traces that a simulation collects while it runs, as they become its result.

`virtual_event_loop` adds to them; `scenario` defines each trace and the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .scenario import FailureTrace, IdleWait, SegmentTrace, SimulatedRun, VirtualTransfer
from .virtual_workers import VirtualCall, VirtualWorker


@dataclass(slots=True)
class Traces:
    """Lists of traces in order of time, and counts of the machine's commands and events."""

    segments: list[SegmentTrace] = field(default_factory=list[SegmentTrace])
    transfers: list[VirtualTransfer] = field(default_factory=list[VirtualTransfer])
    waits: list[IdleWait] = field(default_factory=list[IdleWait])
    failures: list[FailureTrace] = field(default_factory=list[FailureTrace])
    finished: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    revisions: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    recoveries: list[tuple[int, float, tuple[int, ...]]] = field(
        default_factory=list[tuple[int, float, tuple[int, ...]]]
    )
    lost_values: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    drained: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    commands: int = 0
    events: int = 0

    def add(self, task: VirtualCall, finish: float, status: str) -> None:
        """Add the trace of a segment that is over."""
        self.segments.append(
            SegmentTrace(
                run=task.run,
                segment=task.segment,
                attempt=task.attempt,
                worker=task.worker,
                commanded=task.commanded,
                ready=task.ready,
                start=task.start,
                finish=finish,
                status=status,
            )
        )

    def simulated_run(self, makespan: float, workers: Sequence[VirtualWorker]) -> SimulatedRun:
        """Return the result of the simulation, with the bytes on each worker over time."""
        return SimulatedRun(
            makespan=makespan,
            busy=tuple(worker.busy for worker in workers),
            segments=tuple(self.segments),
            transfers=tuple(self.transfers),
            waits=tuple(self.waits),
            saved=tuple(tuple(worker.saved) for worker in workers),
            stored=tuple(tuple(worker.stored) for worker in workers),
            failures=tuple(self.failures),
            finished=tuple(self.finished),
            revisions=tuple(self.revisions),
            recoveries=tuple(self.recoveries),
            lost_values=tuple(self.lost_values),
            drained=tuple(self.drained),
            commands=self.commands,
            events=self.events,
        )
