"""Messages: graphs, programs, calls and records as frames, and back.

Workers and clients exchange them. A frame's header is (name, version of the message, body). A body holds numbers, text
and ids as they are; arrays and arbitrary data go through `values`, so that arrays lie beside the header. Decoding gives
equal named tuples, with every type, count and id checked: a worker runs a decoded program without checks of its own.
Opaque blobs (pickled errors, emitted values) stay closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from raygrad.errors import ProtocolError

from ..ir.graph import Graph
from ..ir.nodes import UNDEFINED
from ..ir.program import Call, Failure, Learned, Pinned, Program, Record, Step, Timing, Warned
from .checks import all_ints, fields, flag, integer, integers, octets, one_of, sequence, shown, text, texts
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
    spoken, read = known
    if version != spoken:
        raise ProtocolError(f"a message '{name}' is of version {shown(version)}; this side reads version {spoken}")
    try:
        return read(body, frame.buffers)
    except ProtocolError as error:
        raise ProtocolError(f"in a message '{name}': {error}") from error


_Body: TypeAlias = tuple[Any, list[Buffer]]


def _no_buffers(buffers: tuple[memoryview, ...]) -> None:
    if buffers:
        raise ProtocolError(f"it has {len(buffers)} buffers and needs none")


# ---- hello, graph --------------------------------------------------------------------------------------------------


def _write_hello(message: Hello) -> _Body:
    return (message.version,), []


def _read_hello(body: Any, buffers: tuple[memoryview, ...]) -> Hello:
    _no_buffers(buffers)
    return Hello(integer(fields(body, 1, "hello")[0], "version", 0))


def _write_graph(graph: Graph) -> _Body:
    return encode_graph(graph), []


def _read_graph(body: Any, buffers: tuple[memoryview, ...]) -> Graph:
    _no_buffers(buffers)
    return decode_graph(octets(body, "graph"))


# ---- program -------------------------------------------------------------------------------------------------------


def _write_program(program: Program) -> _Body:
    nodes = node_fields([step.node for step in program.steps])
    places = [(step.index, step.outputs, step.frees) for step in program.steps]
    specs: Any = [spec_fields(spec) for spec in program.specs]
    return (*program._replace(specs=specs, steps=()), nodes, places), []


def _read_program(body: Any, buffers: tuple[memoryview, ...]) -> Program:
    _no_buffers(buffers)
    *parts, nodes, places = fields(body, len(Program._fields) + 2, "program")
    slots, specs, externals, imports, unpins, _, exports, pins, results, open_base = parts
    slots = integer(slots, "number of slots", 0, MAX_VALUES)
    specs = specs_of(specs)
    return Program(
        slots,
        specs,
        _id_slot_pairs(externals, "externals", slots),
        tuple([integers(group, "slots of an import", -1, slots) for group in sequence(imports, "imports")]),
        tuple([_unpin(raw, slots) for raw in sequence(unpins, "unpins")]),
        _steps(nodes, places, slots, len(specs)),
        tuple([integers(group, "slots of an export", 0, slots) for group in sequence(exports, "exports")]),
        _slot_id_pairs(pins, "pins", slots),
        _slot_id_pairs(results, "results", slots),
        integer(open_base, "base of the open values", -1, MAX_VALUES),
    )


def _steps(nodes: Any, places: Any, slots: int, specs: int) -> tuple[Step, ...]:
    """Return the steps, checked all at once; one by one only to name the wrong one."""
    made = nodes_of(nodes, specs)
    entries = sequence(places, "places of the steps")
    if len(entries) != len(made):
        raise ProtocolError(f"there are {len(made)} nodes and {len(entries)} places for them")
    ids: list[Any] = []
    indices: list[Any] = []
    steps: list[Step] = []
    containers: list[Any] = [*entries]
    fits = True
    try:
        for node, (index, outputs, frees) in zip(made, entries, strict=True):
            containers += (outputs, frees)
            fits = fits and len(outputs) == len(node.outputs)
            indices.append(index)
            ids += node.inputs
            ids += outputs
            ids += frees
            ids.append(node.near)
            steps.append(Step(index, node, outputs, frees))
        good = (
            set(map(type, containers)) <= {tuple}
            and all_ints(indices, 0, MAX_NODES)
            and all_ints(ids, UNDEFINED, slots)
        )
    except (TypeError, ValueError):  # the checks below name the wrong part
        good = False
    if not (good and fits):
        return tuple([_step(node, raw, i, slots) for i, (node, raw) in enumerate(zip(made, entries, strict=True))])
    return tuple(steps)


def _step(node: Any, raw: Any, position: int, slots: int) -> Step:
    where = f"of step {position}"
    index, outputs, frees = fields(raw, 3, f"place {where}")
    integers(node.inputs, f"input slots {where}", UNDEFINED, slots)
    integer(node.near, f"colocation {where}", UNDEFINED, slots)
    outputs = integers(outputs, f"output slots {where}", -1, slots)
    if len(outputs) != len(node.outputs):
        raise ProtocolError(f"the node {where} has {len(node.outputs)} outputs and {len(outputs)} slots for them")
    return Step(
        integer(index, f"node index {where}", 0, MAX_NODES),
        node,
        outputs,
        integers(frees, f"freed slots {where}", -1, slots),
    )


def _unpin(raw: Any, slots: int) -> tuple[int, int, bool]:
    value, slot, last = fields(raw, 3, "unpin")
    return integer(value, "value id of an unpin", 0), integer(slot, "slot of an unpin", 0, slots), flag(last, "last")


def _id_slot_pairs(raw: Any, what: str, slots: int) -> tuple[tuple[int, int], ...]:
    pairs = [fields(pair, 2, what) for pair in sequence(raw, what)]
    return tuple([(integer(i, f"id in {what}", 0), integer(slot, f"slot in {what}", 0, slots)) for i, slot in pairs])


def _slot_id_pairs(raw: Any, what: str, slots: int) -> tuple[tuple[int, int], ...]:
    pairs = [fields(pair, 2, what) for pair in sequence(raw, what)]
    return tuple([(integer(slot, f"slot in {what}", 0, slots), integer(i, f"id in {what}", 0)) for slot, i in pairs])


# ---- call ----------------------------------------------------------------------------------------------------------


def _write_call(call: Call) -> _Body:
    tree, buffers = write_values(call.externals)
    return (call.run, call.segment, call.attempt, call.program, tree, call.unpin, call.beside, call.limits), buffers


def _read_call(body: Any, buffers: tuple[memoryview, ...]) -> Call:
    run, segment, attempt, program, tree, unpin, beside, limits = fields(body, len(Call._fields), "call")
    unpinned = [fields(pair, 2, "unpinned value") for pair in sequence(unpin, "unpinned values")]
    pairs = [fields(pair, 2, "room beside") for pair in sequence(beside, "rooms beside")]
    sizes = [fields(pair, 2, "limit of a memory") for pair in sequence(limits, "limits of memories")]
    return Call(
        integer(run, "run"),
        integer(segment, "segment"),
        integer(attempt, "attempt"),
        octets(program, "hash of the program"),
        tuple(read_values(tree, buffers)),
        tuple([Pinned(integer(r, "run of a pinned value"), integer(v, "value id", 0)) for r, v in unpinned]),
        tuple([(text(d, "memory"), integer(room, "room beside", -1)) for d, room in pairs]),
        tuple([(text(d, "memory"), integer(size, "limit of a memory", 1)) for d, size in sizes]),
    )


# ---- record --------------------------------------------------------------------------------------------------------


def _write_record(record: Record) -> _Body:
    """Write a record. One list of values holds, in order: results, emitted values, observed outputs, warnings, the
    exception."""
    values: list[Any] = [value for _, value in record.results]
    values += [value for *_, value in record.emits]
    values += [entry.outputs for entry in record.learned]
    values += [entry.warning for entry in record.warned]
    failure = record.failure
    if failure is not None:
        values.append(failure.exception)
    tree, buffers = write_values(values)
    body = record._replace(
        results=tuple([value for value, _ in record.results]),
        emits=tuple([tuple(emit[:3]) for emit in record.emits]),
        learned=tuple([(entry.index, *entry[2:]) for entry in record.learned]),
        failure=None if failure is None else failure._replace(exception=None),
        warned=tuple([tuple(entry[:-1]) for entry in record.warned]),
    )
    return (*body, tree), buffers


def _read_record(body: Any, buffers: tuple[memoryview, ...]) -> Record:
    *parts, tree = fields(body, len(Record._fields) + 1, "record")
    run, segment, attempt, worker, pid, seconds, status, exports, results, sizes = parts[:10]
    learned, undefined, emits, hooks, failure, warned, timing, peaks = parts[10:]
    results = integers(results, "values of the results", 0)
    emits, learned = sequence(emits, "emits"), sequence(learned, "what was learned")
    warned = sequence(warned, "warnings")
    values = read_values(tree, buffers)
    first_emitted = len(results)
    first_learned = first_emitted + len(emits)
    first_warned = first_learned + len(learned)
    end = first_warned + len(warned)
    if len(values) != end + (failure is not None):
        raise ProtocolError(f"it holds {len(values)} values, which is not what its other fields speak of")
    return Record(
        integer(run, "run"),
        integer(segment, "segment"),
        integer(attempt, "attempt"),
        text(worker, "worker"),
        integer(pid, "process id"),
        _seconds(seconds, "seconds"),
        one_of(status, RECORD_STATUS, "status"),
        _pairs(exports, "sizes of the exports", 0),
        tuple(zip(results, values, strict=False)),
        _pairs(sizes, "sizes of values", -1),
        tuple(map(_learned, learned, values[first_learned:first_warned])),
        tuple([_undefined(raw) for raw in sequence(undefined, "undefined outputs")]),
        tuple(map(_emit, emits, values[first_emitted:first_learned])),
        integers(hooks, "nodes of the hooks", 0),
        None if failure is None else _failure(failure, values[-1]),
        tuple(map(_warned, warned, values[first_warned:end])),
        _timing(timing),
        tuple([_peak(raw) for raw in sequence(peaks, "most bytes")]),
    )


def _peak(raw: Any) -> tuple[str, int]:
    device, size = fields(raw, 2, "most bytes of a memory")
    return text(device, "memory"), integer(size, "most bytes", 0)


def _seconds(raw: Any, what: str) -> float:
    if type(raw) is not float or not 0.0 <= raw < float("inf"):
        raise ProtocolError(f"the {what} are {shown(raw)}, no time of 0 or more")
    return raw


def _timing(raw: Any) -> Timing:
    began, inputs, steps, outputs, nodes, waited = fields(raw, len(Timing._fields), "timing")
    entries = [fields(entry, 3, "time of a node") for entry in sequence(nodes, "times of nodes")]
    return Timing(
        _seconds(began, "seconds at which it began"),
        _seconds(inputs, "seconds for inputs"),
        _seconds(steps, "seconds for steps"),
        _seconds(outputs, "seconds for outputs"),
        tuple(
            [
                (
                    integer(index, "node index of a time", 0),
                    _seconds(start, "start of a node"),
                    _seconds(took, "seconds of a node"),
                )
                for index, start, took in entries
            ]
        ),
        _seconds(waited, "seconds of waiting"),
    )


def _pairs(raw: Any, what: str, low: int) -> tuple[tuple[int, int], ...]:
    pairs = [fields(pair, 2, what) for pair in sequence(raw, what)]
    return tuple([(integer(a, what, 0), integer(b, what, low)) for a, b in pairs])


def _learned(raw: Any, outputs: Any) -> Learned:
    index, saved_inputs, saved_outputs = fields(raw, len(Learned._fields) - 1, "what was learned")
    for output in sequence(outputs, "learned outputs"):
        text((sequence(output, "learned output") or (None,))[0], "kind of a learned output")
    return Learned(
        integer(index, "node index of what was learned", 0),
        outputs,
        integers(saved_inputs, "saved inputs", 0),
        integers(saved_outputs, "saved outputs", 0),
    )


def _undefined(raw: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    index, outputs, requiring = fields(raw, 3, "undefined outputs of a vjp")
    return (
        integer(index, "node index of a vjp", 0),
        integers(outputs, "undefined outputs", 0),
        integers(requiring, "outputs that require grad"),
    )


def _emit(raw: Any, value: Any) -> tuple[int, int, str, Any]:
    index, ordinal, name = fields(raw, 3, "emit")
    return (
        integer(index, "node index of an emit", 0),
        integer(ordinal, "ordinal of an emit", 0),
        text(name, "name"),
        value,
    )


def _failure(raw: Any, exception: Any) -> Failure:
    index, node, shapes, trace, _, kind, message = fields(raw, len(Failure._fields), "failure")
    return Failure(
        integer(index, "node index of a failure", -1),
        text(node, "node of a failure"),
        texts(shapes, "shapes of a failure"),
        text(trace, "traceback"),
        exception,
        text(kind, "type of an exception"),
        text(message, "message of an exception"),
    )


def _warned(raw: Any, warning: Any) -> Warned:
    index, category, message, filename, line, module = fields(raw, len(Warned._fields) - 1, "warning")
    return Warned(
        integer(index, "node index of a warning", 0),
        text(category, "category of a warning"),
        text(message, "message of a warning"),
        text(filename, "file of a warning"),
        integer(line, "line of a warning", 0),
        text(module, "module of a warning"),
        warning,
    )


# ---- the set of messages -------------------------------------------------------------------------------------------

_OUT: Final[dict[type, tuple[str, int, Callable[[Any], _Body]]]] = {
    Hello: ("hello", 1, _write_hello),
    Graph: ("graph", 1, _write_graph),
    Program: ("program", 1, _write_program),
    Call: ("call", 1, _write_call),
    Record: ("record", 4, _write_record),
}

_IN: Final[dict[str, tuple[int, Callable[[Any, tuple[memoryview, ...]], Message]]]] = {
    "hello": (1, _read_hello),
    "graph": (1, _read_graph),
    "program": (1, _read_program),
    "call": (1, _read_call),
    "record": (4, _read_record),
}
