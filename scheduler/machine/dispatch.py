"""Dispatch ahead: the decision which segments are commanded, and when (H13).

The machine calls it after each event. A segment is commanded as soon as everything that it reads has been commanded,
not finished: the driver passes references. Per worker segments are commanded in order of submission, up to a number
that are in flight.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from .commands import RunSegment
from .liveness import Liveness
from .state import LiveSegment, Move, SegmentState, State


class Dispatcher:
    """Commands the segments of one machine's state, `window` at a time per worker."""

    def __init__(self, state: State, liveness: Liveness, window: int) -> None:
        self._state = state
        self._liveness = liveness
        self._window = window

    def dispatch(self, at: float) -> None:
        """Command every segment that can be commanded at this time, the earliest first.

        Only workers for which something changed are looked at, so that this costs what it commands, not what there is.
        """
        heads: list[tuple[int, int, int]] = []
        offered: set[int] = set()
        for worker in self._state.stirred:
            self._offer(worker, heads, offered)
        self._state.stirred.clear()
        while heads:
            run, index, worker = heappop(heads)
            offered.remove(worker)
            self._start(self._state.queues[worker].popleft(), at)
            self._offer(worker, heads, offered)
            for reader in self._state.awaited.pop((run, index), ()):
                self._offer(reader, heads, offered)

    def _offer(self, worker: int, heads: list[tuple[int, int, int]], offered: set[int]) -> None:
        """Add the next segment of a worker to `heads` if it can be commanded now, else note what it waits for."""
        if worker in offered:
            return
        head = self.head(worker)
        if head is None or self._state.in_flight.get(worker, 0) >= self._window:
            return
        if self._state.damaged or self._state.recovery is not None or worker in self._state.lost_workers:
            return  # when that is over, or another process has come, all workers are stirred
        if self._state.replacing or self._state.stopping:  # it may be lost with what it was to stop
            if worker in self._state.replacing or any(one.worker == worker for one in self._state.stopping.values()):
                return  # when that is over, it is stirred
        if self._state.revision is not None and head.run == self._state.revision.run:
            return  # when that is over, all workers are stirred
        if self._state.runs[head.run].damaged:
            return  # likewise, when it was planned again
        missing = self.missing(head)
        if missing is None:
            offered.add(worker)
            heappush(heads, (head.run, head.index, worker))
        else:
            self._state.awaited.setdefault((missing.run, missing.index), []).append(worker)

    def head(self, worker: int) -> LiveSegment | None:
        """Return the next segment to be commanded on a worker."""
        queue = self._state.queues.get(worker)
        while queue and queue[0].state is not SegmentState.WAITING:
            queue.popleft()
        return queue[0] if queue else None

    def missing(self, segment: LiveSegment) -> LiveSegment | None:
        """Return a segment that makes something which this one reads and has not been commanded, if there is one.

        The latest is looked at first: it is commanded last, so that few of many have to be waited for in turn.
        """
        runs, given, revision = self._state.runs, segment.given, self._state.revision
        withdrawn: Collection[tuple[int, int]] = () if revision is None else revision.asked  # or perhaps withdrawn soon
        mates = runs[segment.run].segments
        for source, _ in reversed(given.imports):
            if not mates[source].dispatched or (segment.run, source) in withdrawn:
                return mates[source]
        for source in reversed(given.after):
            if not mates[source].dispatched or (segment.run, source) in withdrawn:
                return mates[source]
        for source, value in reversed(given.reads):
            live = runs[source].values[value]
            maker = self._liveness.maker(live)
            if live.lost or not maker.dispatched or (source, maker.index) in withdrawn:
                return maker
        return None

    def _start(self, segment: LiveSegment, at: float) -> None:
        worker = segment.given.worker
        for source, value_id in segment.given.reads:
            value = self._state.runs[source].values[value_id]
            if value.pinned_on not in (-1, worker):
                self._liveness.make_object(value)
        segment.move(Move.DISPATCHED, at)
        segment.dispatched = True
        self._state.in_flight[worker] = self._state.in_flight.get(worker, 0) + 1
        self._liveness.unpin_now(worker)  # it goes along with the call
        self._liveness.commands.append(
            RunSegment(
                run=segment.run,
                segment=segment.index,
                attempt=segment.attempt,
                worker=worker,
                priority=segment.given.priority,
            )
        )
        run = self._state.runs[segment.run]
        if run.outlook is not None:
            run.outlook.running[worker].add(segment.index)
        values = run.values
        for value_id in segment.kept:
            if value_id in values and values[value_id].wanted:
                self._liveness.make_object(values[value_id])
