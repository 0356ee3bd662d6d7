"""Messages come back equal, from any cut of their bytes; version 1 has the bytes it had; nothing malformed gets in.

`python tests/proto/codec/test_messages.py` writes the golden files of a new version; those of an existing one stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from raygrad.errors import NotShippable, ProtocolError
from raygrad.proto.codec.frames import PROTOCOL_VERSION, FrameDecoder, NeedData, decode_frame, encode_frame
from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.codec.messages import Hello, Message, decode_message, encode_message, message_of
from raygrad.proto.codec.values import Blob
from raygrad.proto.ir.array_layout import layout_of
from raygrad.proto.ir.graph import Graph, structural_hash
from raygrad.proto.ir.nodes import placed
from raygrad.proto.ir.program import (
    Call,
    CapturedWarning,
    Failure,
    FunctionObservation,
    Item,
    OutputFingerprints,
    Pinned,
    Program,
    Record,
    Step,
    Timing,
)

from ...graph_nodes import function_node, function_vjp_node, op_node
from ..all_kinds import GRAPH

GOLDEN = Path(__file__).parent / "golden" / f"v{PROTOCOL_VERSION}"

LARGE = np.arange(3000.0).reshape(50, 60)

MESSAGES: dict[str, Message] = {
    "hello": Hello(PROTOCOL_VERSION),
    "graph_of_all_kinds": GRAPH,
    "program_of_all_kinds": Program(
        slots=10,
        specs=GRAPH.specs,
        externals=((0, 0), (1, 1)),
        imports=((2, -1), ()),
        unpins=((9, 3, True), (8, 4, False)),
        steps=tuple(
            [
                Step(index, placed(node, node.inputs, node.outputs), tuple(range(len(node.outputs))), (0,))
                for index, node in enumerate(GRAPH.nodes)
            ]
        ),
        exports=((5, 2),),
        pins=((2, 2),),
        results=((5, 7),),
        open_base=-1,
        user_code=((1, 1), (4, 2)),
    ),
    "call": Call(
        run=7,
        segment=1,
        attempt=2,
        program=bytes(range(16)),
        externals=(
            np.arange(6, dtype="<f4").reshape(2, 3).T,
            LARGE,
            np.broadcast_to(np.arange(3.0), (4, 3)),
            0.1,
            -3,
            True,
            None,
            ("a", b"b", [1j], {"k": (2,)}, slice(1, None)),
            Pinned(6, 2),
            Item(0, 1),
            Blob(b"opaque"),
        ),
        unpin=(Pinned(5, 1), Pinned(5, 2)),
        headroom=(("cpu", 1000), ("cuda:0", -1)),
        limits=(("cpu", 5000),),
        paths=((((3, 0), 5),), (((3, 0), 5), ((3, 2**64 - 1), 1 << 40, 0))),
    ),
    "record": Record(
        run=7,
        segment=1,
        attempt=2,
        worker="w0",
        pid=4321,
        seconds=0.125,
        status="done",
        exports=((4096, 128), (0, 0)),
        results=((7, np.arange(3.0)), (8, None), (9, LARGE.T)),
        sizes=((7, 24), (8, -1)),
        observations=(
            FunctionObservation(
                2, (("array", (GRAPH.specs[0], True, None)), ("object", None), ("tuple", 1)), (0,), (1, 2)
            ),
            FunctionObservation(3, (), (), ()),
        ),
        undefined=((5, (0,), (1, 2)),),
        emits=((2, 0, "loss", b"\x80pickled"), (2, 1, "grad", Blob(b"pickled"))),
        hooks=(3, 4),
        warned=(
            CapturedWarning(4, "UserWarning", "mind the gap", "/home/ada/train.py", 12, "__main__", b"\x80pickled"),
        ),
        timing=Timing(1234.5, 0.0625, 0.125, 0.25, ((2, 0.0625, 0.03125), (4, 0.09375, 0.0625)), 0.015625),
        peaks=(("cpu", 1 << 20), ("cuda:0", 17)),
        fingerprints=OutputFingerprints((2, 5), (3, 0), (-(1 << 63), 0, 1)),
    ),
    "failure": Record(
        run=7,
        segment=1,
        attempt=0,
        worker="w1",
        pid=1,
        seconds=0.0,
        status="failed",
        exports=(),
        results=(),
        sizes=(),
        observations=(),
        undefined=(),
        emits=((0, 0, "before", b"p"),),
        hooks=(),
        failure=Failure(
            3, "MyLayer (vjp)", ("float32[2, 3]", "context"), "Traceback …", Blob(b"e"), "ValueError", "no"
        ),
        warned=(
            CapturedWarning(0, "MyWarning", "", "lib.py", 0, "", Blob(b"w")),
            CapturedWarning(1, "UserWarning", "…", "lib.py", 3, "lib", b"w"),
        ),
    ),
}

messages = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)


def assert_same(back: Any, value: Any):
    """Equal, of the same types all the way down, arrays in the same layout."""
    assert type(back) is type(value)
    if isinstance(value, np.ndarray):
        assert (back.dtype, back.shape, layout_of(back)) == (value.dtype, value.shape, layout_of(value))
        assert back.tobytes() == value.tobytes()
        assert not back.flags.writeable
    elif isinstance(value, tuple | list):
        assert len(back) == len(value)
        for mine, theirs in zip(back, value, strict=True):
            assert_same(mine, theirs)
    elif isinstance(value, dict):
        assert_same(list(back.items()), list(value.items()))
    else:
        assert back == value


@messages
def test_a_message_comes_back_equal(message: Message):
    assert_same(decode_message(encode_message(message)), message)
    assert_same(decode_message(wire_of(message)), message)


@messages
def test_a_message_fed_byte_by_byte_with_another_behind_it(message: Message):
    wire = wire_of(message) + wire_of(Hello(1))
    decoder = FrameDecoder()
    got: list[Message] = []
    for at in range(len(wire)):
        decoder.feed(wire[at : at + 1])
        while not isinstance(frame := decoder.next_frame(), NeedData):
            got.append(message_of(frame))
    assert_same(got, [message, Hello(1)])


@messages
def test_a_truncated_message_is_refused(message: Message):
    wire = wire_of(message)
    for end in range(0, len(wire), max(1, len(wire) // 100)):
        with pytest.raises(ProtocolError):
            decode_message(wire[:end])


def wire_of(message: Message) -> bytes:
    pieces: list[Any] = [*encode_message(message)]
    return b"".join(pieces)


def golden() -> dict[str, bytes]:
    files = {name: wire_of(message) for name, message in MESSAGES.items()}
    return {**files, "structural_hash_of_all_kinds": structural_hash(encode_graph(GRAPH))}


@pytest.mark.parametrize("name", [*MESSAGES, "structural_hash_of_all_kinds"])
def test_the_bytes_of_this_version_stay_what_they_were(name: str):
    assert golden()[name] == (GOLDEN / f"{name}.bin").read_bytes()


@messages
def test_the_golden_files_are_read(message: Message):
    name = next(name for name, other in MESSAGES.items() if other is message)
    assert_same(decode_message((GOLDEN / f"{name}.bin").read_bytes()), message)


def test_nodes_that_lack_fields_are_refused():
    """This was written by hand and never sent: a Function has more fields than it says."""
    with pytest.raises(ProtocolError, match=r"the params of node 1 \(@f00d\) are neither 7 nor 9 fields"):
        decode_message((GOLDEN / "graph.bin").read_bytes())


@pytest.mark.parametrize(
    ("fingerprints", "why"),
    [
        (OutputFingerprints((1, 2), (1,), (5,)), "1 fingerprints are not those of 2 nodes"),
        (OutputFingerprints((1,), (2,), (5,)), "1 fingerprints are not those of 1 nodes"),
        (OutputFingerprints((-1,), (1,), (5,)), "nodes of the fingerprints"),
        (OutputFingerprints((1,), (1,), (1 << 63,)), "fingerprints are not integers"),
    ],
)
def test_fingerprints_that_do_not_belong_to_nodes_are_refused(fingerprints: OutputFingerprints, why: str):
    with pytest.raises(ProtocolError, match=why):
        decode_message(wire_of(RECORD._replace(fingerprints=fingerprints)))


def test_fingerprints_are_told_by_node():
    found = OutputFingerprints((7, 2, 5), (1, 0, 2), (11, 12, 13))
    assert list(found.by_node()) == [(7, (11,)), (2, ()), (5, (12, 13))]


def test_a_path_without_an_ordinal_is_refused():
    with pytest.raises(ProtocolError, match="a path is an origin and ordinals, not 1 numbers"):
        decode_message(wire_of(CALL._replace(paths=((((1, 2),),),))))


@pytest.mark.parametrize("name", ["hello", "graph", "program", "call", "record", "failure"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_bytes_of_an_earlier_version_are_refused_by_its_name(name: str, version: int):
    with pytest.raises(ProtocolError, match=f"version {version} of the protocol; this side speaks {PROTOCOL_VERSION}"):
        decode_message((GOLDEN.parent / f"v{version}" / f"{name}.bin").read_bytes())


def test_large_arrays_are_not_copied_on_the_way_through_a_process():
    call = Call(1, 0, 0, b"", (LARGE,))
    back = decode_message(encode_message(call))
    assert isinstance(back, Call)
    assert np.shares_memory(back.externals[0], LARGE)


def test_an_open_ended_graph_keeps_its_flag():
    graph = Graph(GRAPH.specs, (0,), (function_node("@f00d", (0, -1), (2,)),), (), open_ended=True)
    assert_same(decode_message(encode_message(graph)), graph)


def test_what_is_no_message_is_not_sent():
    with pytest.raises(ProtocolError, match=r"an? ArraySpec is no message"):
        encode_message(GRAPH.specs[0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(NotShippable, match="object"):
        encode_message(Call(1, 0, 0, b"", (object(),)))


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (("gossip", 1, ()), r"no message is called str 'gossip'; there are hello, graph, program, call, record"),
        ((("hello",), 1, ()), "no message is called"),
        (("hello", 2, (1,)), "version int 2; this side reads version 1"),
        (("hello", 1), "not 3 fields"),
        (("hello", 1, ()), "in a message 'hello': the hello is not 1 fields"),
        (("hello", 1, ("1",)), "version is not an integer"),
        (("graph", 1, "graph"), "graph is not bytes"),
        ("hello", "not 3 fields"),
    ],
)
def test_an_unknown_message_or_version_is_a_clear_error(header: Any, says: str):
    with pytest.raises(ProtocolError, match=says):
        decode_message(encode_frame(header))


def test_buffers_that_a_message_does_not_need_are_refused():
    for name in ("hello", "graph_of_all_kinds", "program_of_all_kinds"):
        header = decode_frame(encode_message(MESSAGES[name])).header
        with pytest.raises(ProtocolError, match="needs none"):
            decode_message(encode_frame(header, [b"more"]))
    frame = decode_frame(encode_message(MESSAGES["call"]))
    with pytest.raises(ProtocolError, match="buffers"):
        decode_message(encode_frame(frame.header, [*map(bytes, frame.buffers), b"more"]))


LAYER = function_node("@f00d", (2, 3), (2, 0), (1, -1), near=2)
PROGRAM: Any = Program(
    slots=6,
    specs=GRAPH.specs[:5],
    externals=((0, 0), (1, 1)),
    imports=((2, -1), ()),
    unpins=((9, 3, True), (8, 4, False)),
    steps=(
        Step(0, op_node("mul", (0, 1)), (2,), (0, 1)),
        Step(2, LAYER, (3, -1), ()),
        Step(5, function_vjp_node("@f00d", (3, -1, 4), near=3), (5,), (3, 4)),
    ),
    exports=((5, 2),),
    pins=((2, 2),),
    results=((5, 7),),
    open_base=8,
)
CALL: Any = MESSAGES["call"]
RECORD: Any = MESSAGES["record"]
FAILED: Any = MESSAGES["failure"]


WARNED: Any = CapturedWarning(2, "W", "m", "f", 1, "m", b"")


def learned(*entry: Any) -> Any:
    return RECORD._replace(observations=(FunctionObservation(*entry),))


def timing(**changes: Any) -> Any:
    return RECORD._replace(timing=RECORD.timing._replace(**changes))


def with_step(**changes: Any) -> Any:
    return PROGRAM._replace(steps=(PROGRAM.steps[0], PROGRAM.steps[1]._replace(**changes), PROGRAM.steps[2]))


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (with_step(index=-1), "node index of step 1"),
        (with_step(index=1.0), "node index of step 1"),
        (with_step(node=LAYER._replace(inputs=(6, 0))), "input slots of step 1"),
        (with_step(node=LAYER._replace(near=6)), "colocation of step 1"),
        (with_step(node=LAYER._replace(outputs=(0, 5))), "output specs of node 1"),
        (with_step(outputs=(3, 6)), "output slots of step 1"),
        (with_step(outputs=(3,)), "has 2 outputs and 1 slots"),
        (with_step(outputs=3), "output slots of step 1"),
        (with_step(outputs=b"\x03\x04"), "output slots of step 1"),
        (with_step(frees=(7,)), "freed slots of step 1"),
        (with_step(frees=None), "freed slots of step 1"),
        (with_step(frees=(True,)), "freed slots of step 1"),
        (PROGRAM._replace(slots=-1), "number of slots"),
        (PROGRAM._replace(slots=2**40), "number of slots"),
        (PROGRAM._replace(externals=((0, 6),)), "slot in externals"),
        (PROGRAM._replace(externals=((0, -1),)), "slot in externals"),
        (PROGRAM._replace(externals=((0,),)), "externals is not 2 fields"),
        (PROGRAM._replace(imports=((6,),)), "slots of an import"),
        (PROGRAM._replace(imports=(0,)), "slots of an import"),
        (PROGRAM._replace(unpins=((0, 0, 1),)), "last is not true or false"),
        (PROGRAM._replace(unpins=((0, 0),)), "unpin is not 3 fields"),
        (PROGRAM._replace(exports=((-1,),)), "slots of an export"),
        (PROGRAM._replace(pins=((6, 0),)), "slot in pins"),
        (PROGRAM._replace(results=((0, -1),)), "id in results"),
        (PROGRAM._replace(open_base=-2), "base of the open values"),
        (CALL._replace(run="7"), "run is not an integer"),
        (CALL._replace(program="key"), "hash of the program"),
        (CALL._replace(unpin=((1,),)), "unpinned value"),
        (CALL._replace(unpin=((1, -1),)), "value id"),
        (RECORD._replace(worker=0), "worker is not text"),
        (RECORD._replace(pid=None), "process id"),
        (RECORD._replace(seconds=1), "seconds are int 1"),
        (RECORD._replace(seconds=-1.0), "seconds are float -1.0, no time"),
        (timing(began=float("nan")), "seconds at which it began are float nan"),
        (timing(steps=float("inf")), "seconds for steps are float inf"),
        (timing(outputs=None), "seconds for outputs"),
        (timing(nodes=((1, 0.5),)), "time of a node is not 3 fields"),
        (timing(nodes=((-1, 0.5, 0.5),)), "node index of a time"),
        (timing(nodes=((1, 0.5, -0.5),)), "seconds of a node are float -0.5"),
        (RECORD._replace(timing=()), "timing is not 6 fields"),
        (RECORD._replace(peaks=(("cpu", -1),)), "most bytes"),
        (RECORD._replace(peaks=((1, 1),)), "memory is not text"),
        (RECORD._replace(status="lost"), "status is not one of done, failed, skipped"),
        (RECORD._replace(exports=((1,),)), "sizes of the exports"),
        (RECORD._replace(results=((-1, None),)), "values of the results"),
        (RECORD._replace(sizes=((7, -2),)), "sizes of values"),
        (learned(-1, (), (), ()), "node index of what was learned"),
        (learned(1, ((),), (), ()), "kind of a learned output"),
        (learned(1, [("object",)], (), ()), "learned outputs"),
        (learned(1, (), ("0",), ()), "saved inputs"),
        (RECORD._replace(undefined=((5, (0,)),)), "undefined outputs of a vjp"),
        (RECORD._replace(warned=(WARNED._replace(line=-1),)), "line of a warning"),
        (RECORD._replace(warned=(WARNED._replace(index=-1),)), "node index of a warning"),
        (RECORD._replace(warned=(WARNED._replace(message=b"m"),)), "message of a warning is not text"),
        (RECORD._replace(emits=((2, -1, "loss", b""),)), "ordinal of an emit"),
        (RECORD._replace(emits=((2, 0, b"loss", b""),)), "name is not text"),
        (RECORD._replace(hooks=(-1,)), "nodes of the hooks"),
        (FAILED._replace(failure=FAILED.failure._replace(index=-2)), "node index of a failure"),
        (FAILED._replace(failure=FAILED.failure._replace(shapes=(1,))), "shapes of a failure"),
        (FAILED._replace(failure=FAILED.failure._replace(message=None)), "message of an exception"),
    ],
)
def test_a_malformed_message_is_refused_and_the_error_says_where(message: Any, says: str):
    with pytest.raises(ProtocolError, match=says):
        decode_message(encode_message(message))


def test_a_record_whose_values_do_not_match_its_fields_is_refused():
    name, version, body = decode_frame(encode_message(FAILED)).header
    kinds, pooled, entries = body[-1]
    with pytest.raises(ProtocolError, match="not what its other fields speak of"):
        decode_message(encode_frame((name, version, (*body[:-1], (kinds, pooled, (*entries, None))))))


def test_a_program_whose_places_do_not_match_its_nodes_is_refused():
    name, version, body = decode_frame(encode_message(PROGRAM)).header
    with pytest.raises(ProtocolError, match="3 nodes and 2 places"):
        decode_message(encode_frame((name, version, (*body[:-1], body[-1][:2]))))


@settings(deadline=None)
@given(st.sampled_from([*MESSAGES]), st.data())
def test_a_damaged_message_is_refused_or_is_another_message(name: str, data: st.DataObject):
    wire = bytearray((GOLDEN / f"{name}.bin").read_bytes())
    end = min(len(wire), 600)
    for _ in range(data.draw(st.integers(1, 4))):
        wire[data.draw(st.integers(16, end - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_message(bytes(wire))
    except ProtocolError:
        pass


_ids = st.integers(0, 2**40)
_values = (
    st.none() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5) | st.builds(Pinned, _ids, _ids)
)
_times = st.floats(0.0, allow_infinity=False)
_records = st.builds(
    Record,
    run=_ids,
    segment=_ids,
    attempt=_ids,
    worker=st.text(max_size=5),
    pid=_ids,
    seconds=_times,
    status=st.sampled_from(["done", "failed", "skipped"]),
    exports=st.lists(st.tuples(_ids, _ids), max_size=2).map(tuple),
    results=st.lists(st.tuples(_ids, _values), max_size=3).map(tuple),
    sizes=st.lists(st.tuples(_ids, st.integers(-1, 9)), max_size=3).map(tuple),
    observations=st.lists(st.just(FunctionObservation(1, (("object", None),), (0,), ())), max_size=2).map(tuple),
    undefined=st.lists(st.tuples(_ids, st.just((0,)), st.just(())), max_size=2).map(tuple),
    emits=st.lists(st.tuples(_ids, _ids, st.text(max_size=3), _values), max_size=3).map(tuple),
    hooks=st.lists(_ids, max_size=3).map(tuple),
    failure=st.none() | st.just(Failure(-1, "", (), "", b"e", "E", "m")),
    warned=st.lists(
        st.builds(CapturedWarning, _ids, st.just("W"), st.text(max_size=3), st.just("f"), _ids, st.just("m"), _values),
        max_size=2,
    ).map(tuple),
    fingerprints=st.lists(st.tuples(_ids, st.lists(st.integers(-(2**63), 2**63 - 1), max_size=2)), max_size=2).map(
        lambda rows: OutputFingerprints(
            tuple([node for node, _ in rows]),
            tuple([len(found) for _, found in rows]),
            tuple([one for _, found in rows for one in found]),
        )
    ),
    peaks=st.lists(st.tuples(st.text(max_size=5), st.integers(0, 2**40)), max_size=2).map(tuple),
    timing=st.builds(
        Timing,
        _times,
        _times,
        _times,
        _times,
        st.lists(st.tuples(_ids, _times, _times), max_size=2).map(tuple),
        _times,
    ),
)


_bits = st.integers(0, 2**64 - 1)
_calls = st.builds(
    Call,
    _ids,
    _ids,
    _ids,
    st.binary(max_size=16),
    st.lists(_values, max_size=3).map(tuple),
    st.lists(st.builds(Pinned, _ids, _ids), max_size=2).map(tuple),
    st.lists(st.tuples(st.text(max_size=5), st.integers(-1, 2**40)), max_size=2).map(tuple),
    st.lists(st.tuples(st.text(max_size=5), st.integers(1, 2**40)), max_size=2).map(tuple),
    st.lists(st.lists(st.tuples(st.tuples(_bits, _bits), _bits), max_size=2).map(tuple), max_size=2).map(tuple),
)


@settings(deadline=None)
@given(_records | _calls)
def test_any_call_or_record_comes_back_equal(message: Message):
    assert_same(decode_message(encode_message(message)), message)


def write_golden() -> None:
    """Write the golden files of a new protocol version."""
    GOLDEN.mkdir(parents=True)
    for name, data in golden().items():
        (GOLDEN / f"{name}.bin").write_bytes(data)


if __name__ == "__main__":
    write_golden()
