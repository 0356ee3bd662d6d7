"""Submission builder: the needed records as a graph with external inputs and kept values.

The graph cache calls it, and `Session.explain`. It is pure: numbering, liveness and hashing. Records that no handle,
pass, hook or emit needs are left out (H21).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.devices.serving import CPU
from raygrad.autograd.storage.view import LostData
from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.ir.graph import KEEP_FOR_RUNS, KEEP_IN_STORE, KEEP_ON_WORKER, CostHint, Graph, structural_hash
from raygrad.proto.ir.nodes import UNDEFINED, UNPLACED, Node, OpVjp
from raygrad.workers.executors.calls import GraphSubmission, KeptExternal, SuppliedExternal

from ..functions.resource_requests import ResourceRequest, demands_of
from ..recording.records import NodeRecord, SpecEntry
from ..recording.source_locations import Site
from ..recording.variables import Write

_stamps = itertools.count(1)
"""Marks the spec entries of one graph; over all sessions, which share the entries of constants and contexts."""


class Submitted:
    """One submission after it was sent: what is needed to explain, learn from and undo it."""

    __slots__ = (
        "depends", "dropped", "error", "finished", "learns", "nbytes", "number", "run", "sites", "stories", "writes",
    )  # fmt: skip

    def __init__(
        self, run: int, sites: list[Site | None], learns: dict[int, NodeRecord], writes: list[Write], depends: set[int]
    ) -> None:
        self.run = run
        self.sites = sites
        """Per node of the graph, the user's place."""
        self.stories: dict[int, str] = {}
        """Under anomaly detection, where nodes of the client's graph were made, by index in this one (MD-06)."""
        self.learns = learns
        """Nodes whose record teaches something, by index in the graph."""
        self.writes = writes
        self.depends = depends
        """Earlier runs whose values it reads."""
        self.nbytes = 0
        """Bytes of the arrays that it was given, see `SubmissionLimit`."""
        self.finished = False
        self.error: BaseException | None = None
        """Why it was dropped."""


def needed_records(records: Sequence[NodeRecord], stamp: int) -> list[NodeRecord]:
    """Return the records that must run, in order."""
    needed: list[NodeRecord] = []
    for record in reversed(records):
        read = record.needed == stamp
        if read or record.live or record.effects:
            if record.learn is not None and record.learn.presumes:
                record.learn.prepare(record, read)
            record.needed = stamp
            needed.append(record)
            for source in record.sources if record.near is None else (*record.sources, record.near):
                if type(source) is tuple:
                    maker: Any = source[0]
                    if maker.run < 0:
                        maker.needed = stamp
                    elif maker.learn is not None:
                        maker.rely()
    needed.reverse()
    return needed


class Built(NamedTuple):
    """A submission, and where its externals come from: for each a constant, or (record, output) of an earlier run."""

    submission: GraphSubmission
    sources: list[Any]


def build(
    run: int,
    records: Sequence[NodeRecord],
    requests: Mapping[str, ResourceRequest] = MappingProxyType({}),
    *,
    hints: tuple[CostHint, ...] = (),
    open_ended: bool = False,
    unread: Mapping[int, AbstractSet[int]] = MappingProxyType({}),
) -> Built:
    """Return the submission of `records` as run `run`. The records learn where their values will be.

    `requests` has the resource requests of user Functions, by name; `hints` what is known of their times; `unread`, by
    id of a record, the outputs that are kept for later runs and hardly ever read here.
    """
    specs: list[Any] = []
    stamp = next(_stamps)

    def spec_index(entry: SpecEntry) -> int:
        if entry.stamp != stamp:
            entry.stamp = stamp
            entry.local = len(specs)
            specs.append(entry.spec)
        return entry.local

    externals = _externals_of(records, spec_index)
    next_id = len(externals.given)
    for record in records:
        record.base = next_id
        next_id += len(record.outputs)
    nodes = _nodes_of(records, externals.numbers, spec_index)
    keep, demands = _kept_of(records, unread), demands_of(records, requests)
    graph = Graph(tuple(specs), tuple(externals.specs), tuple(nodes), tuple(keep), open_ended, demands, hints)
    encoded = encode_graph(graph)
    return Built(
        GraphSubmission(run, graph, encoded, structural_hash(encoded), tuple(externals.given), paths_of(records)),
        externals.sources,
    )


def paths_of(records: Sequence[NodeRecord]) -> dict[int, tuple[Any, ...]]:
    """Return, by node of user code, the paths by which it draws random numbers."""
    return {index: record.paths for index, record in enumerate(records) if record.paths}


class _Externals(NamedTuple):
    """What records read that none of them makes."""

    numbers: dict[Any, int]
    """Of an output of an earlier run by (run, value), of a constant by its id."""
    given: list[Any]
    sources: list[Any]
    """See `Built`."""
    specs: list[int]


def _externals_of(records: Sequence[NodeRecord], spec_index: Callable[[SpecEntry], int]) -> _Externals:
    """Return what these records read from elsewhere, each once, in the order in which they do."""
    found = _Externals({}, [], [], [])
    numbers, given, sources, specs = found
    for record in records:
        for source in record.sources if record.near is None else (*record.sources, record.near):
            if type(source) is tuple:
                maker: Any = source[0]
                if maker.run < 0:
                    continue
                index: int = source[1]
                key: Any = (maker.run, maker.base + index)
                if key not in numbers:
                    numbers[key] = len(given)
                    sources.append((maker, index))
                    value = None if maker.values is None else value_here(maker, index)
                    given.append(KeptExternal(*key) if value is None else SuppliedExternal(value))
                    specs.append(spec_index(maker.outputs[index]))
            elif source is not None:
                constant: Any = source
                key = id(constant)
                if key not in numbers:
                    numbers[key] = len(given)
                    sources.append(constant)
                    given.append(SuppliedExternal(constant.value))
                    specs.append(spec_index(constant.spec))
    return found


def _nodes_of(
    records: Sequence[NodeRecord], externals: Mapping[Any, int], spec_index: Callable[[SpecEntry], int]
) -> list[Node]:
    """Return the node of each record; all know by now where their values will be."""
    nodes: list[Node] = []
    shared: dict[int, Any] = {}
    """Outputs and vjps of ops that records share (`Template`), translated once."""
    make: Any = cast("Any", tuple).__new__
    common = len(UNPLACED)
    for record in records:
        inputs: list[int] = []
        for source in record.sources:
            if type(source) is tuple:
                maker: Any = source[0]
                value = maker.base + source[1]
                inputs.append(value if maker.run < 0 else externals[maker.run, value])
            elif source is None:
                inputs.append(UNDEFINED)
            else:
                inputs.append(externals[id(source)])
        near = UNDEFINED
        if record.near is not None:
            assert isinstance(record.near, tuple)  # a context is never a constant
            maker, index, _ = record.near
            near = maker.base + index if maker.run < 0 else externals[maker.run, maker.base + index]
        outputs = shared.get(id(record.outputs))
        if outputs is None:
            outputs = shared[id(record.outputs)] = tuple([spec_index(entry) for entry in record.outputs])
        work = record.work
        if type(work) is OpVjp:
            known = shared.get(id(work))
            if known is None:
                known = shared[id(work)] = _with_indices(work, spec_index)
            work = known
        # `placed`, without a call for each node
        nodes.append(make(type(work), (tuple(inputs), outputs, record.pin, near) + work[common:]))  # noqa: RUF005
    return nodes


def _kept_of(records: Sequence[NodeRecord], unread: Mapping[int, AbstractSet[int]]) -> list[tuple[int, int]]:
    """Return the values that somebody holds, and where each is kept."""
    keep: list[tuple[int, int]] = []
    for record in records:
        for index in record.held_outputs() if record.live else ():
            stored = is_stored(record, index, record.outputs[index])
            on_worker = KEEP_FOR_RUNS if index in unread.get(id(record), ()) else KEEP_ON_WORKER
            keep.append((record.base + index, KEEP_IN_STORE if stored else on_worker))
    return keep


def value_here(record: NodeRecord, index: int) -> Any:
    """Return an output that is at the client, as nodes are sent it; None for one that they find on its worker: of a
    device it stays there, and so does a context that belongs to its worker."""
    assert record.values is not None
    entry = record.outputs[index]
    if entry.device is not CPU or (entry.is_context and record.pinned):
        return None
    return record.values.get(index)


def is_stored(record: NodeRecord, index: int, entry: SpecEntry) -> bool:
    """Tell whether a kept output goes to the store: contexts, and what is saved for a backward. Of a device it does not
    leave its worker."""
    if entry.is_context:
        return not record.pinned
    return bool(record.saved) and record.is_retained(index) and entry.device is CPU


def _with_indices(vjp: OpVjp, spec_index: Callable[[SpecEntry], int]) -> OpVjp:
    """Return a recorded vjp with indices of the graph in the place of its entries."""
    entries: Any = vjp
    return vjp._replace(
        operand_specs=tuple([-1 if entry is None else spec_index(entry) for entry in entries.operand_specs]),
        result_specs=tuple([spec_index(entry) for entry in entries.result_specs]),
    )


def unsubmitted_dependencies(value: Any, is_tainted: Callable[[NodeRecord], bool]) -> bool:
    """Tell whether a pending value depends, through records not yet submitted, on one that `is_tainted`."""
    if type(value) is not Pending and hasattr(value, "_data"):
        value = value._data
    if type(value) is LostData:
        value = value.array
    if type(value) is not Pending or type(value.record) is not NodeRecord:
        return False
    stack: list[NodeRecord] = [value.record]
    seen: set[int] = set()
    while stack:
        record = stack.pop()
        if id(record) in seen:
            continue
        seen.add(id(record))
        if is_tainted(record):
            return True
        if record.run < 0:
            stack.extend(source[0] for source in record.sources if isinstance(source, tuple))
    return False
