"""Run table: the runs of one session, from submission until they and all before them have ended.

The submitter enters runs, the run listener marks them as ended, and failures drop what depends on one that failed.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING

from raygrad.scheduler.explain.clock_alignment import ClockOffset

from ..recording.held_records import SWEEP_AT

if TYPE_CHECKING:
    from .run import Run
    from .submission import Submitted


class RunTable:
    """The runs of one session."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.history: list[Submitted] = []
        """Submissions that have not finished, or follow one that has not; oldest first. None of them has failed."""
        self.active: dict[int, Run] = {}
        """By number, the runs of these."""
        self._visible: dict[int, weakref.ref[Run]] = {}
        """By number, runs that somebody may still hold."""
        self._sweep_at = SWEEP_AT
        self.last: Run | None = None
        self.clocks: dict[str, ClockOffset] = {}
        """Per worker, the offset of its clock from this one."""

    def submitted(self, run: int) -> Submitted | None:
        """Return a submission of the history."""
        return next((one for one in reversed(self.history) if one.run == run), None)

    def enter(self, run: Run) -> None:
        """Add a run that has been submitted."""
        if self.last is not None:
            self.last.alone &= self.last.finished
        self.last = self.active[run.number] = run
        self._visible[run.number] = weakref.ref(run)
        if len(self._visible) > self._sweep_at:
            self._visible = {number: held for number, held in self._visible.items() if held() is not None}
            self._sweep_at = SWEEP_AT + 2 * len(self._visible)

    def visible(self, run: int) -> Run | None:
        """Return a run, if somebody still holds it."""
        held = self._visible.get(run)
        return None if held is None else held()

    def finish(self, run: int) -> None:
        """Mark a submission as finished, and forget those at the beginning of the history that are."""
        for submitted in self.history:
            if submitted.run == run:
                submitted.finished = True
        while self.history and self.history[0].finished:
            self.active.pop(self.history.pop(0).run, None)
