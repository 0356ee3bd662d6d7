"""Messages: graphs, programs, calls and records as frames, and back.

Workers and clients exchange them. A frame's header is (name, version of the message, body). A body holds numbers, text
and ids as they are; arrays and arbitrary data go through `values`, so that arrays lie beside the header. Decoding gives
equal named tuples, with every type, count and id checked: a worker runs a decoded program without checks of its own.
Opaque blobs (pickled errors, emitted values) stay closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias, cast

from raygrad.errors import ProtocolError

from ..ir.graph import Graph
from ..ir.nodes import UNDEFINED, Node
from ..ir.program import (
    Call,
    CapturedWarning,
    Failure,
    FunctionObservation,
    OutputFingerprints,
    Pinned,
    Program,
    Record,
    Step,
    Timing,
)
from .checks import (
    Read,
    all_ints,
    fields,
    flag,
    integer,
    integers,
    many,
    octets,
    of,
    one_of,
    opaque,
    row,
    seconds,
    sequence,
    shown,
    text,
    texts,
)
from .columns import Columns, in_columns, in_rows, read_columns
from .frames import Frame, decode_frame, encode_frame
from .graphs import decode_graph, encode_graph
from .nodes import MAX_NODES, MAX_VALUES, node_fields, nodes_of
from .specs import spec_fields, specs_of
from .value_reader import read_values
from .value_writer import Buffer, write_values

RECORD_STATUS: Final = frozenset({"done", "failed", "skipped"})


class Hello(NamedTuple):
    """The first message on a connection. `version` is that of the protocol (`frames.PROTOCOL_VERSION`)."""

    version: int


Message: TypeAlias = Hello | Graph | Program | Call | Record


def encode_message(message: Message) -> list[Buffer]:
    """Return the message as the pieces of one frame, to be sent in order; large arrays are not copied.

    Raises:
        NotShippable: it holds a value that is no plain data.
        ProtocolError: it is over a cap of `frames`, or is no message.
    """
    known = _OUT.get(type(message))
    if known is None:
        raise ProtocolError(f"a {type(message).__name__} is no message")
    name, version, write = known
    body, buffers = write(message)
    return encode_frame((name, version, body), buffers)


def decode_message(data: Any) -> Message:
    """Return the message in `data`: the bytes of one whole frame, or its pieces in order.

    Raises:
        ProtocolError: it is no message that this side knows, or not a well-formed one.
    """
    return message_of(decode_frame(data))


def message_of(frame: Frame) -> Message:
    """Return the message in a frame that a `FrameDecoder` gave.

    Raises:
        ProtocolError: as `decode_message`.
    """
    name, version, body = fields(frame.header, 3, "header of a message")
    known = _IN.get(name) if type(name) is str else None
    if known is None:
        raise ProtocolError(f"no message is called {shown(name)}; there are {', '.join(_IN)}")
    spoken, has_buffers, read = known
    if version != spoken:
        raise ProtocolError(f"a message '{name}' is of version {shown(version)}; this side reads version {spoken}")
    try:
        if frame.buffers and not has_buffers:
            raise ProtocolError(f"it has {len(frame.buffers)} buffers and needs none")
        return read(body, frame.buffers)
    except ProtocolError as error:
        raise ProtocolError(f"in a message '{name}': {error}") from error


_Body: TypeAlias = tuple[Any, list[Buffer]]


# ---- program -------------------------------------------------------------------------------------------------------


def _write_program(program: Program) -> _Body:
    nodes = node_fields([step.node for step in program.steps])
    places = [(step.index, step.outputs, step.frees) for step in program.steps]
    specs: Any = [spec_fields(spec) for spec in program.specs]
    return (*program._replace(specs=specs, steps=()), nodes, places), []


_NODE_INDEX: Final = of(integer, "node index of user code", 0, MAX_NODES)


def _read_program(body: Any, _buffers: tuple[memoryview, ...]) -> Program:
    *parts, nodes, places = fields(body, len(Program._fields) + 2, "program")
    slots, specs, externals, imports, unpins, _, exports, pins, results, open_base, user_code = parts
    slots = integer(slots, "number of slots", 0, MAX_VALUES)
    specs = specs_of(specs)
    unpin = row(
        "unpin", of(integer, "value id of an unpin", 0), of(integer, "slot of an unpin", 0, slots), of(flag, "last")
    )

    def pairs(raw: Any, what: str, slot_first: bool) -> tuple[tuple[int, int], ...]:
        reads = of(integer, f"id in {what}", 0), of(integer, f"slot in {what}", 0, slots)
        return many(what, row(what, *(reads[::-1] if slot_first else reads)))(raw)

    return Program(
        slots,
        specs,
        pairs(externals, "externals", False),
        many("imports", of(integers, "slots of an import", -1, slots))(imports),
        many("unpins", unpin)(unpins),
        _steps(nodes, places, slots, len(specs)),
        many("exports", of(integers, "slots of an export", 0, slots))(exports),
        pairs(pins, "pins", True),
        pairs(results, "results", True),
        integer(open_base, "base of the open values", -1, MAX_VALUES),
        many("steps of user code", row("step of user code", _NODE_INDEX, _NODE_INDEX))(user_code),
    )


def _steps(nodes: Any, places: Any, slots: int, specs: int) -> tuple[Step, ...]:
    """Return the steps, checked all at once; one by one only to name the wrong one."""
    made = nodes_of(nodes, specs)
    entries = sequence(places, "places of the steps")
    if len(entries) != len(made):
        raise ProtocolError(f"there are {len(made)} nodes and {len(entries)} places for them")
    try:
        good = _well_placed(made, entries, slots)
    except (TypeError, ValueError):  # the checks below name the wrong part
        good = False
    if not good:
        for position, (node, raw) in enumerate(zip(made, entries, strict=True)):
            _check_step(node, raw, f"of step {position}", slots)
    indices, outputs, frees = zip(*entries, strict=True) if entries else ((), (), ())
    return tuple(map(_new_step, zip(indices, made, outputs, frees, strict=True)))


_new_step: Callable[[Any], Step] = partial(cast("Any", tuple).__new__, Step)
"""`Step._make`, without the check that there are four fields."""


def _well_placed(nodes: Sequence[Node], places: Sequence[Any], slots: int) -> bool:
    """Tell whether the places of all steps are right."""
    if not places:
        return True
    indices, outputs, frees = zip(*places, strict=True)
    inputs = [node.inputs for node in nodes]
    ids = [*chain.from_iterable(chain(inputs, outputs, frees)), *[node.near for node in nodes]]
    return (
        set(map(type, chain(places, outputs, frees))) == {tuple}
        and list(map(len, outputs)) == [len(node.outputs) for node in nodes]
        and all_ints(indices, 0, MAX_NODES)
        and all_ints(ids, UNDEFINED, slots)
    )


def _check_step(node: Node, raw: Any, where: str, slots: int) -> None:
    """Check the place of one step."""
    integers(node.inputs, f"input slots {where}", UNDEFINED, slots)
    integer(node.near, f"colocation {where}", UNDEFINED, slots)
    _, outputs, _ = row(
        f"place {where}",
        of(integer, f"node index {where}", 0, MAX_NODES),
        of(integers, f"output slots {where}", -1, slots),
        of(integers, f"freed slots {where}", -1, slots),
    )(raw)
    if len(outputs) != len(node.outputs):
        raise ProtocolError(f"the node {where} has {len(node.outputs)} outputs and {len(outputs)} slots for them")


# ---- call ----------------------------------------------------------------------------------------------------------


def _write_call(call: Call) -> _Body:
    tree, buffers = write_values(call.externals)
    return (*call._replace(externals=tree, paths=_write_paths(call.paths)),), buffers


_CALL: Final = row(
    "call",
    of(integer, "run"),
    of(integer, "segment"),
    of(integer, "attempt"),
    of(octets, "hash of the program"),
    opaque,
    many(
        "unpinned values",
        row("unpinned value", of(integer, "run of a pinned value"), of(integer, "value id", 0), make=Pinned._make),
    ),
    many("rooms beside", row("room beside", of(text, "memory"), of(integer, "room beside", -1))),
    many("limits of memories", row("limit of a memory", of(text, "memory"), of(integer, "limit of a memory", 1))),
    opaque,
)


def _read_call(body: Any, buffers: tuple[memoryview, ...]) -> Call:
    run, segment, attempt, program, tree, unpin, headroom, limits, paths = _CALL(body)
    values = tuple(read_values(tree, buffers))
    return Call(run, segment, attempt, program, values, unpin, headroom, limits, _read_paths(paths))


def _write_paths(paths: Sequence[tuple[tuple[Any, ...], ...]]) -> tuple[Any, ...]:
    """Write paths in columns; in the place of an origin is its number among the origins, which come first."""
    origins: dict[tuple[int, int], int] = {}
    tables: list[Columns] = []
    for table in in_columns(paths):
        columns = list(table.columns)
        for start in table.starts():
            columns[start] = tuple([origins.setdefault(origin[:2], len(origins)) for origin in columns[start]])
        tables.append(table._replace(columns=tuple(columns)))
    return (tuple(origins), tuple(map(tuple, tables)))


_ORIGINS: Final = many(
    "origins of paths", row("origin of a path", of(integer, "seed", 0, 1 << 64), of(integer, "key", 0, 1 << 64))
)


def _read_paths(raw: Any) -> tuple[tuple[Any, ...], ...]:
    seeds, tables = fields(raw, 2, "paths")
    origins = _ORIGINS(seeds)
    found: list[Columns] = []
    for table in read_columns(tables, "paths", 0, 1 << 64):
        columns = list(table.columns)
        if (shortest := min(table.lengths, default=2)) < 2:
            raise ProtocolError(f"a path is an origin and ordinals, not {shortest} numbers")
        for start in table.starts():
            columns[start] = [origins[number] for number in integers(columns[start], "origins", 0, len(origins))]
        found.append(table._replace(columns=tuple(columns)))
    return tuple(in_rows(found))


# ---- record --------------------------------------------------------------------------------------------------------


def _write_record(record: Record) -> _Body:
    """Write a record. One list of values holds, in order: results, emitted values, observed outputs, warnings, the
    exception."""
    values: list[Any] = [value for _, value in record.results]
    values += [value for *_, value in record.emits]
    values += [entry.outputs for entry in record.observations]
    values += [entry.warning for entry in record.warned]
    failure = record.failure
    if failure is not None:
        values.append(failure.exception)
    tree, buffers = write_values(values)
    body = record._replace(
        results=tuple([value for value, _ in record.results]),
        emits=tuple([tuple(emit[:3]) for emit in record.emits]),
        observations=tuple([(entry.index, *entry[2:]) for entry in record.observations]),
        failure=None if failure is None else failure._replace(exception=None),
        warned=tuple([tuple(entry[:-1]) for entry in record.warned]),
    )
    return (*body, tree), buffers


def _read_record(body: Any, buffers: tuple[memoryview, ...]) -> Record:
    *plain, tree = _RECORD(body)
    *head, results, sizes, observations, undefined, emits, hooks, failure, warned, timing, peaks, found = plain
    values = read_values(tree, buffers)
    emitted = len(results)
    observed = emitted + len(emits)
    issued = observed + len(observations)
    if len(values) != issued + len(warned) + (failure is not None):
        raise ProtocolError(f"it holds {len(values)} values, which is not what its other fields speak of")
    return Record._make(
        [
            *head,
            tuple(zip(results, values, strict=False)),
            sizes,
            tuple(map(_observation, observations, values[observed:])),
            undefined,
            tuple(map(_emit, emits, values[emitted:])),
            hooks,
            failure and failure._replace(exception=values[-1]),
            tuple(map(_warning, warned, values[issued:])),
            timing,
            peaks,
            found,
        ]
    )


def _fingerprints(parts: Sequence[Any]) -> OutputFingerprints:
    nodes, counts, found = parts
    if len(nodes) != len(counts) or sum(counts) != len(found):
        raise ProtocolError(f"{len(found)} fingerprints are not those of {len(nodes)} nodes")
    return OutputFingerprints(nodes, counts, found)


def _emit(entry: tuple[int, int, str], value: Any) -> tuple[int, int, str, Any]:
    return (*entry, value)


def _warning(entry: tuple[Any, ...], warning: Any) -> CapturedWarning:
    return CapturedWarning._make((*entry, warning))


def _observation(entry: tuple[Any, ...], outputs: Any) -> FunctionObservation:
    for output in sequence(outputs, "learned outputs"):
        text((sequence(output, "learned output") or (None,))[0], "kind of a learned output")
    index, saved_inputs, saved_outputs = entry
    return FunctionObservation(index, outputs, saved_inputs, saved_outputs)


def _pairs(what: str, low: int) -> Read:
    return many(what, row(what, of(integer, what, 0), of(integer, what, low)))


_TIMING: Final = row(
    "timing",
    of(seconds, "seconds at which it began"),
    of(seconds, "seconds for inputs"),
    of(seconds, "seconds for steps"),
    of(seconds, "seconds for outputs"),
    many(
        "times of nodes",
        row(
            "time of a node",
            of(integer, "node index of a time", 0),
            of(seconds, "start of a node"),
            of(seconds, "seconds of a node"),
        ),
    ),
    of(seconds, "seconds of waiting"),
    make=Timing._make,
)

_FAILURE: Final = row(
    "failure",
    of(integer, "node index of a failure", -1),
    of(text, "node of a failure"),
    of(texts, "shapes of a failure"),
    of(text, "traceback"),
    opaque,
    of(text, "type of an exception"),
    of(text, "message of an exception"),
    make=Failure._make,
)


def _failure(raw: Any) -> Failure | None:
    return None if raw is None else _FAILURE(raw)


_RECORD: Final = row(
    "record",
    of(integer, "run"),
    of(integer, "segment"),
    of(integer, "attempt"),
    of(text, "worker"),
    of(integer, "process id"),
    of(seconds, "seconds"),
    of(one_of, "status", RECORD_STATUS),
    _pairs("sizes of the exports", 0),
    of(integers, "values of the results", 0),
    _pairs("sizes of values", -1),
    many(
        "what was learned",
        row(
            "what was learned",
            of(integer, "node index of what was learned", 0),
            of(integers, "saved inputs", 0),
            of(integers, "saved outputs", 0),
        ),
    ),
    many(
        "undefined outputs",
        row(
            "undefined outputs of a vjp",
            of(integer, "node index of a vjp", 0),
            of(integers, "undefined outputs", 0),
            of(integers, "outputs that require grad"),
        ),
    ),
    many(
        "emits",
        row("emit", of(integer, "node index of an emit", 0), of(integer, "ordinal of an emit", 0), of(text, "name")),
    ),
    of(integers, "nodes of the hooks", 0),
    _failure,
    many(
        "warnings",
        row(
            "warning",
            of(integer, "node index of a warning", 0),
            of(text, "category of a warning"),
            of(text, "message of a warning"),
            of(text, "file of a warning"),
            of(integer, "line of a warning", 0),
            of(text, "module of a warning"),
        ),
    ),
    _TIMING,
    many("most bytes", row("most bytes of a memory", of(text, "memory"), of(integer, "most bytes", 0))),
    row(
        "fingerprints",
        of(integers, "nodes of the fingerprints", 0),
        of(integers, "counts of fingerprints", 0),
        of(integers, "fingerprints"),
        make=_fingerprints,
    ),
    opaque,
)
"""The fields of a record, without what its values hold, and these values."""


# ---- the set of messages -------------------------------------------------------------------------------------------

_OUT: Final[dict[type, tuple[str, int, Callable[[Any], _Body]]]] = {
    Hello: ("hello", 1, lambda hello: (tuple(hello), [])),
    Graph: ("graph", 1, lambda graph: (encode_graph(graph), [])),
    Program: ("program", 1, _write_program),
    Call: ("call", 2, _write_call),
    Record: ("record", 6, _write_record),
}

_IN: Final[dict[str, tuple[int, bool, Callable[[Any, tuple[memoryview, ...]], Message]]]] = {
    "hello": (1, False, lambda body, _: Hello(integer(fields(body, 1, "hello")[0], "version", 0))),
    "graph": (1, False, lambda body, _: decode_graph(octets(body, "graph"))),
    "program": (1, False, _read_program),
    "call": (2, True, _read_call),
    "record": (6, True, _read_record),
}
"""Per name: its version, whether it has buffers, and what reads it."""
