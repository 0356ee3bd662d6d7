"""Liveness: reader counts that decide when an object is dropped and a pinned value is unpinned.

The machine updates the counts and takes the resulting commands. A kept value is needed while the client holds it or a
segment that is not final reads it; an object while a segment that is not final imports it, or a kept value in it is
needed. What is not needed is dropped at once, but never before the segment that makes it is final, so that no command
overtakes the making. What counts in the lineage of a later run (`lineage`) is dropped too, but for a copy, and
remembered as lost.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from raygrad.proto.ir.program import Pinned

from ..model.plan import InStore, OnWorker
from .commands import Command, DropCopy, DropExport, DropValue, ExportValue, ForgetRun, Unpin, UseCopy, UseObject
from .lineage import may_run_again
from .state import LiveRun, LiveSegment, LiveValue, ObjectState, RecoveryCopy, SegmentState, State, last_drops


class Liveness:
    """Keeps the reader counts of one machine's state, and collects the commands that follow from them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.commands: list[Command] = []
        """Collected commands, in order; the machine adds its own."""
        self._unpins: defaultdict[int, list[Pinned]] = defaultdict(list)

    def take(self) -> list[Command]:
        """Return the collected commands and clear them. `Unpin` commands come last, one per worker, unless a segment
        follows on the worker."""
        for worker in sorted(self._unpins):
            self.unpin_now(worker)
        commands, self.commands = self.commands, []
        return commands

    def unpin_now(self, worker: int) -> None:
        """Command the values of a worker to be unpinned that nothing reads any more, if there are any."""
        values = self._unpins.pop(worker, None)
        if values:
            self.commands.append(Unpin(worker=worker, values=tuple(sorted(values))))

    def maker(self, value: LiveValue) -> LiveSegment:
        """Return the segment that makes a kept value."""
        return self._state.runs[value.run].segments[value.place.segment]

    def make_object(self, value: LiveValue) -> None:
        """Command a pinned value to be exported as an object, once; until the answer this counts as a reader."""
        if value.object is ObjectState.ABSENT and not value.lost and value.pinned_on >= 0:
            value.object = ObjectState.REQUESTED
            value.readers += 1
            self.commands.append(ExportValue(worker=value.pinned_on, run=value.run, value=value.value))

    def object_made(self, value: LiveValue, size: int) -> None:
        """Enter that a requested object exists."""
        value.object = ObjectState.LIVE
        value.size = size
        self._state.account(size, saved=False)
        self.read(value)
        if value.run in self._state.runs:
            self.forget(self._state.runs[value.run])

    def drop_object(self, value: LiveValue) -> None:
        """Drop the object of a pinned value."""
        self._state.account(-value.size, saved=False)
        value.object, value.size = ObjectState.ABSENT, 0
        self.commands.append(DropValue(run=value.run, value=value.value))

    def object_failed(self, value: LiveValue) -> None:
        """Enter that a requested object will not be made."""
        value.object = ObjectState.ABSENT
        self.read(value)

    def exported(self, run: LiveRun, segment: LiveSegment, sizes: tuple[int, ...]) -> None:
        """Enter the sizes of the objects that a segment returned."""
        for index, size in enumerate(sizes):
            export = run.exports[segment.index, index]
            export.size = size
            self._state.account(size, saved=export.saved)

    def segment_final(self, run: LiveRun, segment: LiveSegment) -> None:
        """Enter that a segment is final: remove it as a reader, and drop those of its outputs that nobody needs."""
        for source in segment.given.imports:
            run.exports[source].readers -= 1
            self.drop_export(run, source)
        for earlier, value_id in segment.given.reads:
            source_run = self._state.runs.get(earlier)
            value = source_run.values.get(value_id) if source_run is not None else None
            if value is not None:
                self.read(value)
        for index in range(len(segment.given.exports)):
            self.drop_export(run, (segment.index, index))
        if run.exposed and segment.dispatched:
            for value_id in segment.given.drops:
                self.drop_copy(run, value_id, segment.given.worker)
        for value_id in segment.kept:
            if value_id in run.values:
                self.drop_if_unneeded(run.values[value_id])

    def read(self, value: LiveValue) -> None:
        """Remove one reader of a kept value."""
        value.readers -= 1
        self.drop_if_unneeded(value)

    def release(self, value: LiveValue) -> None:
        """Enter that the client no longer holds a value."""
        value.held = False
        self.drop_if_unneeded(value)

    def unpin(self, worker: int, run: int, value: int) -> None:
        """Have a value unpinned that nothing reads."""
        self._unpins[worker].append(Pinned(run, value))

    def unpin_inner(self, run: LiveRun) -> None:
        """Unpin the values that segments pinned for each other, of a run that failed, or of which something was to be
        made again in vain: the last reader may not have run."""
        for segment in run.segments:
            if segment.dispatched and not segment.orphaned and segment.given.worker not in self._state.lost_workers:
                inner = [value for value in segment.given.pins if value not in segment.kept]
                self._unpins[segment.given.worker].extend([Pinned(run.run, value) for value in inner])
                for value in inner:
                    self.drop_copy(run, value, segment.given.worker)
                if inner:  # they are not there any more
                    kept = tuple([value for value in segment.given.pins if value in segment.kept])
                    segment.given = replace(segment.given, pins=kept)

    def worker_lost(self, worker: int) -> None:
        """Enter that a worker died: its values need no unpinning."""
        self._unpins.pop(worker, None)

    def drop_export(self, run: LiveRun, key: tuple[int, int]) -> None:
        """Drop an object if no segment will read it and it holds no value still needed."""
        export = run.exports.get(key)
        if export is None or export.readers or export.kept or not run.segments[export.segment].state.final:
            return
        del run.exports[key]
        self._state.account(-export.size, saved=export.saved)
        maker = run.segments[export.segment]
        if maker.dispatched or maker.stale:
            self.commands.append(DropExport(run=run.run, segment=export.segment, export=export.index))
        self.forget(run)

    def drop_copy(self, run: LiveRun, value: int, worker: int) -> None:
        """Enter that nobody needs a saved value any more that a worker pinned: make no copy of it, or drop that."""
        exposed = run.exposed.get(worker)
        if exposed is not None:
            exposed.values.pop(value, None)
        copy = run.copies.pop(value, None)
        if copy is not None and copy.object is ObjectState.LIVE:
            self._state.account(-copy.size, saved=True)
            self.commands.append(DropCopy(run=run.run, value=value))

    def drop_copies(self, run: LiveRun) -> None:
        """Drop the copies of all saved values of a run."""
        for value in list(run.copies):
            self.drop_copy(run, value, -1)

    def drop_if_unneeded(self, value: LiveValue) -> None:
        """Drop a kept value if nobody needs it and its segment is final."""
        run = self._state.runs[value.run]
        if value.held or value.readers or not run.segments[value.place.segment].state.final:
            return
        if value.lineage:
            self._reduce(run, value)
        else:
            del run.values[value.value]
            self._free(run, value)
        self.forget(run)

    def _free(self, run: LiveRun, value: LiveValue) -> None:
        """Drop a kept value wherever it is."""
        if value.lost:
            return
        if isinstance(value.place, InStore):
            key = (value.place.segment, value.place.export)
            run.exports[key].kept -= 1
            self.drop_export(run, key)
            return
        if value.object is ObjectState.LIVE:
            self.drop_object(value)
        if run.exposed or run.copies:
            self.drop_copy(run, value.value, value.place.worker)
        self._unpin(run, value)

    def _unpin(self, run: LiveRun, value: LiveValue) -> None:
        """Have a kept value unpinned that is pinned on a worker which lives."""
        worker, maker = value.pinned_on, run.segments[value.place.segment]
        if maker.dispatched and worker >= 0 and worker not in self._state.lost_workers:
            self._unpins[worker].append(Pinned(value.run, value.value))

    # ---- lineage ---------------------------------------------------------------------------------------------------

    def retain(self, run: LiveRun) -> None:
        """Count a run in the lineage of what it reads, until nothing of it can have to be made again."""
        run.retained = True
        for source, value in run.reads:
            self._state.runs[source].values[value].lineage += 1

    def use_copy(self, run: LiveRun, value: LiveValue, copy: RecoveryCopy) -> None:
        """Enter that the copy of a value is all that there is of it: it is the value's object from here on."""
        self._state.account(-copy.size, saved=True)
        self._state.account(copy.size, saved=False)
        value.object, value.size = ObjectState.LIVE, copy.size
        value.place = OnWorker(-1, value.place.segment)
        self.commands.append(UseCopy(run=run.run, value=value.value))

    def _reduce(self, run: LiveRun, value: LiveValue) -> None:
        """Drop a kept value that nobody needs but, perhaps, to make something again: its copy stays, and so does all of
        a run that does not count in a lineage any more, since it cannot be made again."""
        if value.lost or (value.pinned_on < 0 and isinstance(value.place, OnWorker)):
            return
        if value.stays and value.stored:
            if value.pinned_on >= 0:
                self._unpin(run, value)
                value.place = OnWorker(-1, value.place.segment)
                self.commands.append(UseObject(run=run.run, value=value.value))
            return
        copy = run.copies.get(value.value)
        if copy is None and run.finished and not run.retained:
            return
        if copy is None:
            self._free(run, value)
            value.lost, value.object, value.size = True, ObjectState.ABSENT, 0
        elif copy.object is ObjectState.LIVE:  # else it is waited for
            if value.object is ObjectState.LIVE:
                self.drop_object(value)
            self._unpin(run, value)
            del run.copies[value.value]
            self.use_copy(run, value, copy)

    def void(self, run: LiveRun, value: LiveValue) -> None:
        """Drop a kept value that counts no more, and have it made again if it is held."""
        value.void = value.held
        if value.lost:
            return
        if value.pinned_on < 0 and isinstance(value.place, OnWorker):
            self.drop_object(value)
        else:
            self._free(run, value)
        value.lost, value.object, value.size = True, ObjectState.ABSENT, 0

    def void_inner(self, run: LiveRun, segment: LiveSegment) -> None:
        """Unpin the values that a segment pinned for later ones and that are not kept, unless one of these has dropped
        them; and drop their copies."""
        ended = [one for one in run.segments if one.state is SegmentState.DONE]
        dropped = last_drops(ended)
        worker = segment.given.worker
        for value in segment.given.pins:
            if value not in segment.kept and dropped.get(value, -1) < segment.index and not segment.orphaned:
                self.drop_copy(run, value, worker)
                if worker not in self._state.lost_workers:
                    self.unpin(worker, run.run, value)

    def forget(self, run: LiveRun) -> None:
        """Forget a run that is over and has no live values and exports; and, where that ends their lineage, runs that
        it has read from."""
        pending = [run]
        while pending:
            current = pending.pop()
            if current.retained and not may_run_again(current):
                current.retained = False
                self._state.retained_runs -= 1
                self._state.retained_bytes -= current.supplied_bytes
                for number, value_id in current.reads:
                    source = self._state.runs[number]
                    value = source.values[value_id]
                    value.lineage -= 1
                    if not value.lineage and not value.held and not value.readers:
                        if source.segments[value.place.segment].state.final:
                            del source.values[value_id]
                            self._free(source, value)
                    pending.append(source)
            over = current.finished or (current.failed and not current.unfinished)
            if over and not current.values and not current.exports and not current.retained and not current.unfinished:
                if self._state.runs.pop(current.run, None) is not None and current.recoverable and not current.failed:
                    self.commands.append(ForgetRun(run=current.run))
