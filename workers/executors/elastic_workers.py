"""Workers that come and go: which were asked for, which are to leave, and how many there are to be.

The driver calls it under its lock. The state machine empties a worker before it ends (`scheduler.machine.draining`);
here it is decided which, and the planner is told, so that no new plan has work for one that leaves."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from raygrad.errors import ExecutionError, RaygradError, WorkerLost
from raygrad.scheduler.machine.events import DrainCancelled, DrainRequested, Event, WorkersAdded
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.model.plan import WorkerSpec
from raygrad.scheduler.planning.planner import Planner

from .base import FIXED_WORKERS, Executor

GROW_SECONDS: Final = 1.0
"""Seconds for which there is more work than workers before another one is asked for: a Ray that has to start a machine
takes a minute, one that has room a second or two."""

IDLE_SECONDS: Final = 60.0
"""Seconds without work after which a worker is given back: a pause between two cells of a notebook is shorter."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How many workers a session has: at least and at most, and the seconds without work before one is given back."""

    least: int
    most: int
    idle_seconds: float = IDLE_SECONDS


@dataclass(slots=True, eq=False)
class Asked:
    """Workers that were asked for together."""

    count: int
    by_scale: bool = False
    """No user waits for them: work does."""
    names: list[str] = field(default_factory=list[str])
    """Those that have come."""
    failed: list[Exception] = field(default_factory=list[Exception])

    @property
    def over(self) -> bool:
        """Whether all have come or failed."""
        return len(self.names) + len(self.failed) >= self.count


def _as_it_is(spec: WorkerSpec) -> WorkerSpec:
    return spec


class ElasticWorkers:
    """See the head of this file. `dispatch` passes events to the state machine, `warn` a warning to the user."""

    def __init__(
        self,
        executor: Executor,
        planner: Planner,
        machine: Machine,
        dispatch: Callable[..., None],
        warn: Callable[[str], None],
        clock: Callable[[], float],
        scale: Scale | None,
    ) -> None:
        self.leaving: set[int] = set()
        """Workers that are emptied, until they are gone or stay after all."""
        self.admit: Callable[[WorkerSpec], WorkerSpec] = _as_it_is
        """Returns a worker that has come as the planner is to see it, or raises a RaygradError if it is refused."""
        self._executor = executor
        self._planner = planner
        self._machine = machine
        self._dispatch = dispatch
        self._warn = warn
        self._clock = clock
        self._scale = scale
        self._asked: list[Asked] = []
        """What has not come yet, in the order in which it was asked for."""
        self._ended: set[int] = set()
        """Workers that were ended here."""
        self._why: dict[int, RaygradError] = {}
        """Per worker that was to leave and stays, or died before it was empty, the error that says so."""
        self._short_since: float | None = None
        """Since when there has been more work than workers."""
        self._idle_since: float | None = None
        self._refused = False
        """A worker that was asked for here did not come or was refused: no more are asked for while this work goes
        on."""

    @property
    def present(self) -> list[int]:
        """The workers that are there and stay."""
        gone = {index for index, one in enumerate(self._planner.cluster.workers) if one.lost}
        return [index for index in range(len(self._planner.cluster.workers)) if index not in gone | self.leaving]

    @property
    def may_leave(self) -> bool:
        """Whether a worker is on another machine than this process, which may announce its end."""
        executor = self._executor
        return executor.remote and any(one.host != executor.host for one in executor.cluster.workers)

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for workers that have not come."""
        return any(not one.by_scale for one in self._asked)

    # ---- workers that come -----------------------------------------------------------------------------------------

    def ask(self, count: int, options: Mapping[str, Any], *, by_scale: bool = False) -> Asked:
        """Ask for workers with these options."""
        asked = Asked(count, by_scale)
        self._executor.add(count, options)
        self._asked.append(asked)
        return asked

    def joined(self, worker: int) -> None:
        """Take in that a worker has come; end it again if it is refused."""
        spec, refused = self._executor.cluster.workers[worker], None
        try:
            spec = self.admit(spec)
        except (RaygradError, Warning) as error:  # a warning that the user has made an error
            refused = error
            spec = replace(spec, lost=True)
        cluster = self._planner.cluster
        self._planner.use_cluster(replace(cluster, workers=(*cluster.workers, spec)))
        self._dispatch(WorkersAdded(at=self._clock(), workers=worker + 1))
        if refused is not None:
            self.end(worker)
            self._enter(refused)
        else:
            self._enter(spec.name)

    def join_failed(self, reason: str) -> None:
        """Take in that a worker does not come."""
        self._enter(ExecutionError(reason))

    def give_up(self) -> None:
        """Give up the workers that have not come."""
        self._executor.stop_joining()
        self._asked.clear()

    def _enter(self, found: str | Exception) -> None:
        if not self._asked:
            return  # it came just when it was given up: it is welcome all the same
        asked = self._asked[0]
        if isinstance(found, str):
            asked.names.append(found)
        else:
            asked.failed.append(found)
            if asked.by_scale:
                self._refused = True
                self._warn(f"a worker that work waits for could not join: {found}")
        if asked.over:
            self._asked.pop(0)

    # ---- workers that leave ----------------------------------------------------------------------------------------

    def drain(self, worker: int) -> None:
        """Begin to empty a worker.

        Raises:
            ExecutionError: it is the last one, or is not there, or lives in this process.
        """
        if not self._executor.remote:
            raise ExecutionError(FIXED_WORKERS)
        spec = self._executor.cluster.workers[worker]
        if worker in self.leaving:
            return
        if worker not in self.present:
            raise ExecutionError(f"{spec.name} is gone already")
        if self.present == [worker]:
            raise ExecutionError(
                f"{spec.name} is the last worker of this session: close the session, or add one before"
            )
        self._why.pop(worker, None)
        self.leaving.add(worker)
        self._planner.use_cluster(self._planner.cluster.without(worker))
        self._dispatch(DrainRequested(at=self._clock(), worker=worker))

    def stop_draining(self, worker: int) -> None:
        """Keep a worker that is still being emptied."""
        if worker in self.leaving:
            self._dispatch(*self._stays(worker))

    def _stays(self, worker: int) -> list[Event]:
        self.leaving.discard(worker)
        self._planner.use_cluster(self._planner.cluster.restored(worker))
        return [DrainCancelled(at=self._clock(), worker=worker)]

    def kept(self, worker: int, reason: str) -> list[Event]:
        """Take in that something cannot leave a worker, which stays; return what is to be dispatched."""
        if worker not in self.leaving:
            return []
        name = self._executor.cluster.workers[worker].name
        self._why[worker] = ExecutionError(
            f"{name} stays: it has a value that cannot leave it ({reason or 'it cannot be pickled'}), which a later "
            "backward needs; run that, or drop the tensors that lead to it, and remove the worker then"
        )
        return self._stays(worker)

    def end(self, worker: int) -> None:
        """End a worker that is empty."""
        self._ended.add(worker)
        self._executor.end(worker)

    def was_ended(self, worker: int) -> bool:
        """Tell whether a worker was ended here, for good."""
        return worker in self._ended

    def gone(self, worker: int) -> None:
        """Take in that a worker is gone."""
        if worker in self.leaving:
            self.leaving.discard(worker)
            if worker not in self._ended:
                name = self._executor.cluster.workers[worker].name
                self._why[worker] = WorkerLost(f"{name} died before it was empty", name)

    def check_removed(self, worker: int) -> None:
        """Raise why a worker that was to leave has not left as it should."""
        error = self._why.pop(worker, None)
        if error is not None:
            raise error

    # ---- how many there should be ----------------------------------------------------------------------------------

    def look(self, leaving: Mapping[int, float]) -> None:
        """Empty workers whose machines are about to go, by seconds that are left; ask for workers while work waits,
        and give back those that are idle."""
        for worker in sorted(leaving, key=leaving.__getitem__):
            present = self.present
            if worker in present and len(present) > 1:
                self.drain(worker)
        if self._scale is not None:
            self._rescale(self._scale, self._clock(), leaving)

    def _rescale(self, scale: Scale, now: float, leaving: Container[int]) -> None:
        segments = sum(
            not one.state.final for run in self._machine.state.runs.values() if not run.finished for one in run.segments
        )
        present, joining = len(self.present), self._executor.joining
        staying = len([one for one in self.present if one not in leaving])
        wanted = max(scale.least, min(segments, scale.most)) - staying - joining
        if segments:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        if wanted <= 0 or self._refused:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        elif now - self._short_since >= GROW_SECONDS or staying < scale.least:
            self._short_since = None
            wanted = int(min(wanted, self._executor.room()))
            if wanted > 0:
                self.ask(wanted, {}, by_scale=True)
        if self._idle_since is not None and now - self._idle_since >= scale.idle_seconds:
            self._refused = False
            if joining and all(one.by_scale for one in self._asked):
                self.give_up()
            elif present > scale.least and not self.leaving:
                self.drain(self.present[-1])
