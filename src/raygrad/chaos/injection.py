"""Injects faults into the workers of a session, for the length of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

from raygrad.client.session.elastic import worker_index
from raygrad.client.session.session import Session, executor_of
from raygrad.errors import ExecutionError, SessionError, WorkerLost
from raygrad.workers.executors.base import Executor
from raygrad.workers.process.fault_points import FaultNotes

from .faults import Fault
from .worker_faults import WorkerFaults


class Happened(NamedTuple):
    """A fault that has happened."""

    fault: Fault
    at: float
    """When, by `time.time` of its worker."""


def inject(session: Session, *faults: Fault) -> Injected:
    """Return a block in which faults happen to the workers of a session, each once, where its point is reached.

    Points are counted from the begin of the block on, so that they are the same in each run of a program whose plan is
    the same. What was submitted before and still runs counts, too. A fault whose point is not reached by the end of
    the block does not happen.

    Raises:
        TypeError, ValueError: something else than faults, or a worker that the session does not have.
        SessionError: the session is closed, or its workers are not processes of their own and a fault needs that.
        WorkerLost: the worker of a fault has died before.
    """
    if not isinstance(session, Session):  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
        raise TypeError(f"chaos.inject(session, *faults) takes a Session first, not {type(session).__name__}")
    for one in faults:
        if not isinstance(one, Fault):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"chaos.inject(session, *faults) takes faults like chaos.Kill(...), not {one!r}")
    return Injected(session, faults)


class Injected:
    """A block with faults: see `inject`."""

    def __init__(self, session: Session, faults: Sequence[Fault]) -> None:
        self._session = session
        self._faults = tuple(faults)
        self._executor: Executor | None = None
        self._notes: FaultNotes | None = None
        self._workers: list[int] = []
        self._happened: tuple[Happened, ...] = ()

    @property
    def happened(self) -> tuple[Happened, ...]:
        """The faults that have happened so far, in order.

        Raises:
            ExecutionError: the session was closed before the block had ended, and with it the Ray that it had started.
        """
        if self._notes is not None:
            self._happened = tuple([Happened(self._faults[int(number)], at) for at, number in self._notes.read()])
        return self._happened

    def __enter__(self) -> Injected:
        if self._executor is not None:
            raise SessionError("a block of chaos.inject is entered once; call chaos.inject again for another one")
        executor = self._executor = executor_of(self._session)
        by_worker: dict[int, dict[int, Fault]] = {}
        for number, fault in enumerate(self._faults):
            kind = f"chaos.{type(fault).__name__}"
            index = worker_index(f"{kind}(worker, ...)", executor.cluster.workers, fault.worker)
            by_worker.setdefault(index, {})[number] = fault
            if not executor.remote and (fault.needs_process or fault.at.name == "reply"):
                what = kind if fault.needs_process else 'chaos.Point("reply")'
                raise SessionError(
                    f"{what} needs workers that are processes of their own, and those of this session are in this one; "
                    'try it with rg.Session("ray"), or take chaos.Delay or chaos.Raise at another point'
                )
        self._notes = executor.fault_notes()
        for index, some in by_worker.items():
            executor.set_fault_hook(index, WorkerFaults(some, self._notes))
            self._workers.append(index)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        executor, notes = self._executor, self._notes
        assert executor is not None
        assert notes is not None
        for index in self._workers:
            with contextlib.suppress(WorkerLost):
                executor.set_fault_hook(index, None)
        with contextlib.suppress(ExecutionError):  # then whoever asks for them is told
            _ = self.happened
            notes.clear()
            self._notes = None

    def __repr__(self) -> str:
        return f"<chaos.Injected: {', '.join(map(repr, self._faults)) or 'no faults'}>"
