"""Program order of code that changes what it captures, in a session with several workers in this process.

The submitter, `Session.explain` and traces of compiled functions pass records through here before they build a graph.
Such code shares its state with the program, and workers run at the same time. So each node that runs such code gets a
control dependency on the one recorded before it; the executor keeps submissions apart.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Any

from raygrad.proto.ir.nodes import UNPLACED, ControlDependency, code_in
from raygrad.proto.ir.specs import ArraySpec

from ..recording.record_log import RecordLog
from ..recording.records import NodeRecord, Source, SpecEntry


@contextmanager
def looking_in_program_order(
    log: RecordLog, records: list[NodeRecord], ordered: Collection[str]
) -> Generator[list[NodeRecord]]:
    """Yield the same as `in_program_order`, in a context manager that restores the sources: these records stay."""
    sources = [record.sources for record in records] if ordered else []
    try:
        yield in_program_order(log, records, ordered)
    finally:
        for record, before in zip(records, sources, strict=False):
            record.sources = before


def in_program_order(log: RecordLog, records: list[NodeRecord], ordered: Collection[str]) -> list[NodeRecord]:
    """Return records with those between them that keep the nodes whose code is `ordered`, by its name in graphs, in the
    order in which they were recorded. Their sources change."""
    if not ordered:
        return records
    result: list[NodeRecord] = []
    last: NodeRecord | None = None
    for record in records:
        if _runs_any(record, ordered):
            if last is not None:
                result += _after(log, record, last)
            last = record
        result.append(record)
    return result


def _runs_any(record: NodeRecord, code: Collection[str]) -> bool:
    """Tell whether a node runs one of these pieces of code: as its own, or as a handler that its settings name."""
    work: Any = record.work
    return work.fn in code or any([name in code for name in code_in(getattr(work, "settings", ()))])


def _after(log: RecordLog, record: NodeRecord, last: NodeRecord) -> list[NodeRecord]:
    """Have a record read its first array, or else its first constant, through a control dependency on the `last` one;
    return that. Empty if it reads nothing."""
    given = [(one, entry) for one in record.sources if (entry := _entry_of(one)) is not None]
    if not given:
        return []
    source, entry = next((pair for pair in given if isinstance(pair[1].spec, ArraySpec)), given[0])
    made = next((i for i, one in enumerate(last.outputs) if isinstance(one.spec, ArraySpec)), 0)
    work = ControlDependency(*UNPLACED)
    awaiting = NodeRecord(log, work, (source, (last, made, None)), (entry,), record.site)
    awaiting.pin = record.pin
    awaiting.kind = log.order_kinds.get(entry) or log.order_kinds.setdefault(entry, next(log.kinds))
    # every place that reads this value: arguments that are the same tensor stay the same
    record.sources = tuple([(awaiting, 0, None) if _are_same(one, source) else one for one in record.sources])
    return [awaiting]


def _entry_of(source: Source) -> SpecEntry | None:
    if source is None:
        return None
    if type(source) is tuple:
        maker: NodeRecord = source[0]
        return maker.outputs[source[1]]
    constant: Any = source
    return constant.spec


def _are_same(one: Source, other: Source) -> bool:
    if type(one) is tuple and type(other) is tuple:
        return one[:2] == other[:2]
    return one is other
