"""Graph cache: recognises records whose graph was submitted before, as in each step of a training loop.

The submitter asks it for a submission. It compares outlines of records without building their graph, which
`submission.build` does on a miss.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from raygrad.proto.ir.graph import CostHint, Graph
from raygrad.proto.ir.nodes import UNDEFINED
from raygrad.workers.executors.calls import GraphSubmission, KeptExternal, SuppliedExternal

from ..functions.resource_requests import ResourceRequest
from ..recording.records import NodeRecord, SpecEntry
from .submission import build, is_stored, paths_of, value_here

MAX_GRAPHS = 16
"""Graphs of a session that are remembered. At 20,000 nodes one takes about 5 MB, which its plan holds anyway."""


LONGEST_NAME: Final = 4096
"""Bytes of an outline that are a name themselves, which takes less time than a digest of them, and little memory."""


class _CachedGraph(NamedTuple):
    """A graph that was submitted, under its names."""

    graph: Graph
    encoded: bytes
    key: bytes
    specs: tuple[SpecEntry, ...]
    """Those of its externals, by whose identity it is recognised."""


class _GraphOutline(NamedTuple):
    """What a graph is recognised by, and what it is given."""

    name: bytes
    given: tuple[SuppliedExternal | KeptExternal, ...]
    specs: tuple[SpecEntry, ...]


class GraphCache:
    """The graphs that one session submitted last."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _CachedGraph] = OrderedDict()
        self.found = 0
        """Submissions of a graph that was known."""

    def submission(
        self,
        run: int,
        records: Sequence[NodeRecord],
        requests: Mapping[str, ResourceRequest] = MappingProxyType({}),
        *,
        hints: tuple[CostHint, ...] = (),
        open_ended: bool = False,
    ) -> GraphSubmission:
        """Return the submission of `records` as run `run`: what `build` returns. The records learn where their values
        will be."""
        outline = None if open_ended or requests else _outline(records, hints)
        if outline is None:
            return build(run, records, requests, hints=hints, open_ended=open_ended).submission
        name, given, specs = outline
        known = self._known.get(name)
        if known is None:
            made = build(run, records, hints=hints).submission
            self._known[name] = _CachedGraph(made.graph, made.encoded, made.key, specs)
            if len(self._known) > MAX_GRAPHS:
                self._known.popitem(last=False)
            return made
        self._known.move_to_end(name)
        self.found += 1
        shift = len(given)
        for record in records:
            record.base += shift
        return GraphSubmission(run, known.graph, known.encoded, known.key, given, paths_of(records))


def _outline(records: Sequence[NodeRecord], hints: tuple[CostHint, ...]) -> _GraphOutline | None:
    """Return the outline of the graph of records, whose `base` counts from the first afterwards; None for records of
    which only the graph itself tells what they are. Externals are in the order in which `build` has them."""
    numbers: list[int] = []
    add = numbers.append
    externals: dict[Any, int] = {}
    given: list[Any] = []
    specs: list[SpecEntry] = []
    kept: list[int] = []
    base = 0
    for record in records:
        kind = record.kind
        if not kind:
            return None
        record.base = base
        add(kind)
        add(record.pin)
        for source in record.sources if record.near is None else (*record.sources, record.near):
            if type(source) is tuple:
                maker: Any = source[0]
                if maker.run < 0:
                    add(maker.base + source[1])
                    continue
                index: int = source[1]
                key: Any = (maker.run, maker.base + index)
                number = externals.get(key)
                if number is None:
                    number = externals[key] = len(given)
                    value = None if maker.values is None else value_here(maker, index)
                    given.append(KeptExternal(*key) if value is None else SuppliedExternal(value))
                    specs.append(maker.outputs[index])
                add(UNDEFINED - 1 - number)
            elif source is None:
                add(UNDEFINED)
            else:
                constant: Any = source
                number = externals.get(id(constant))
                if number is None:
                    number = externals[id(constant)] = len(given)
                    given.append(SuppliedExternal(constant.value))
                    specs.append(constant.spec)
                add(UNDEFINED - 1 - number)
        outputs = record.outputs
        if record.live:
            for index in record.held_outputs():
                kept += (base + index, int(is_stored(record, index, outputs[index])))
        base += len(outputs)
    # each kind has its number of sources, so that what is written one after the other can be told apart
    name = array("q", (len(numbers), len(specs), len(kept), *map(id, specs), *numbers, *kept)).tobytes()
    if hints:
        name += repr(hints).encode()
    if len(name) > LONGEST_NAME:
        name = blake2b(name, digest_size=16).digest()
    return _GraphOutline(name, tuple(given), tuple(specs))
