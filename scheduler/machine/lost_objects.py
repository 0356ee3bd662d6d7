"""Objects that are lost without the worker that made them: with the object store of a machine, say.

What was nowhere else is lost as with a worker that has died, and made again by the same recovery (`recovery`). What
reads a lost object comes back as skipped. What void segments have returned is lost likewise: it was computed from what
an impure node had returned that has to run again (H2).

Runs that have ended are remembered for what workers may lose, and not for what is in the store (`lineage`): of these,
something is made again only if all is there that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model.plan import InStore
from .commands import VoidSegment
from .events import ObjectsLost
from .liveness import Liveness
from .recovery import Recoverer
from .state import LiveExport, LiveRun, LiveValue, ObjectState, SegmentState, State


class LostObjects:
    """Enters what the runs of one machine's state have lost with objects.

    Args:
        state: of the machine.
        liveness: collects the commands.
        recoverer: gives up what cannot be made again.
    """

    def __init__(self, state: State, liveness: Liveness, recoverer: Recoverer) -> None:
        self._state = state
        self._liveness = liveness
        self._recoverer = recoverer

    def enter(self, event: ObjectsLost) -> None:
        """Enter that objects are lost, and have what is needed of them made again. Those that were dropped meanwhile
        are nobody's."""
        runs = self._state.runs
        for number, value_id in event.copies:
            if number in runs:
                self._lose_copy(runs[number], value_id)
        for number, value_id in event.values:
            value = runs[number].values.get(value_id) if number in runs else None
            if value is not None and value.object is ObjectState.LIVE:
                self._lose_object(runs[number], value)
        for number, segment, index in event.exports:
            export = runs[number].exports.get((segment, index)) if number in runs else None
            if export is not None and not export.lost and runs[number].segments[segment].state is SegmentState.DONE:
                self._lose_export(runs[number], export)
        self._state.losses += 1
        self._state.damaged = True

    def void(self, segments: Sequence[tuple[int, int]]) -> None:
        """Drop what segments have returned, which have run and count no more. Nothing runs that reads it."""
        for number, index in segments:
            run = self._state.runs[number]
            segment = run.segments[index]
            for value in [one for one in run.values.values() if one.place.segment == index]:
                self._liveness.void(run, value)
            for key, export in [(key, one) for key, one in run.exports.items() if key[0] == index and not one.lost]:
                self._state.account(-export.size, saved=export.saved)
                export.lost, export.size = True, 0
                self._liveness.drop_export(run, key)
            self._liveness.void_inner(run, segment)
            segment.orphaned = segment.void = True
            run.damaged = run.damaged or bool(run.unfinished)
            self._liveness.commands.append(VoidSegment(run=number, segment=index))
        for number in sorted({number for number, _ in segments}, reverse=True):
            if number in self._state.runs:
                self._liveness.forget(self._state.runs[number])

    def _lose_copy(self, run: LiveRun, value: int) -> None:
        copy = run.copies.get(value)
        if copy is not None and copy.object is ObjectState.LIVE:
            self._liveness.drop_copy(run, value, -1)

    def _lose_object(self, run: LiveRun, value: LiveValue) -> None:
        self._liveness.drop_object(value)
        if value.pinned_on < 0:
            self._lose_value(run, value)
        elif value.wanted and value.held:
            self._liveness.make_object(value)

    def _lose_export(self, run: LiveRun, export: LiveExport) -> None:
        self._state.account(-export.size, saved=export.saved)
        export.lost, export.size = True, 0
        for value in list(run.values.values()):
            place = value.place
            if isinstance(place, InStore) and (place.segment, place.export) == (export.segment, export.index):
                if not value.lost:
                    export.kept -= 1
                    self._lose_value(run, value)
        key = export.segment, export.index
        if any([one.state is SegmentState.WAITING and key in one.given.imports for one in run.segments]):
            run.damaged = True
        self._liveness.drop_export(run, key)

    def _lose_value(self, run: LiveRun, value: LiveValue) -> None:
        """Enter that a value is nowhere."""
        value.lost = True
        if not self._recoverer.can_remake(run):
            self._recoverer.lose(run, value)
