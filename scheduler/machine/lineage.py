"""Lineage: which values may have to be made again, and by that which runs are remembered (H18).

A run that has ended is remembered while something that it made may be lost: a value that is pinned on a worker, and of
which there is neither an object nor a copy in the object store. To make that again takes what the run has read. So a
remembered run counts in the `lineage` of these values: one that nobody else needs is dropped as ever, and its run is
remembered, to make it once more. Recovery copies end the chain, as does what `stays` in the
store (`recovery_copies`).
"""

from __future__ import annotations

from ..model.plan import InStore, OnWorker
from .state import LiveRun, LiveValue, ObjectState


def may_be_made_again(run: LiveRun, value: LiveValue) -> bool:
    """Return whether something needs a value that is lost, or would be with its worker."""
    if value.irreplaceable:
        return False
    if value.lost:
        return bool(value.held or value.readers or value.lineage)
    copy = run.copies.get(value.value)
    if value.stays and value.stored:
        return False
    if copy is not None and copy.object is ObjectState.LIVE:
        return False
    if isinstance(value.place, InStore) or value.object is ObjectState.LIVE:
        only_object = value.pinned_on < 0 and isinstance(value.place, OnWorker)
        return bool(value.lineage) and not only_object  # others are dropped once nobody reads them
    return True


def may_run_again(run: LiveRun) -> bool:
    """Return whether a run is not over, or a part of it may have to run again."""
    if run.unfinished or not (run.finished or run.failed):
        return True
    if run.failed:
        return False
    for value in run.values.values():  # often the first one says it
        if may_be_made_again(run, value):
            return True
    return False
