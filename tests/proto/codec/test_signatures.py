"""An observed signature has the tuples that it always had, in a node and in a record, and comes back from them."""

from __future__ import annotations

from typing import Any

import pytest

from raygrad.errors import ProtocolError
from raygrad.proto.codec.signatures import read_function_run, signature_fields, signature_of, told_outputs
from raygrad.proto.codec.value_writer import Blob
from raygrad.proto.ir.signatures import ObservedArray, ObservedFixed, ObservedObject, ObservedSignature

PLACE = ((0,), 1, 0, (1,))
SIGNATURE = ObservedSignature(
    outputs=(
        ObservedArray((3,), "float64", differentiable=True, twin=-1, origin=("view", 0, PLACE), device="cpu"),
        ObservedObject(),
        ObservedFixed(b"pickled"),
        ObservedArray((), "int64", differentiable=False, twin=0, origin=(), device="cuda:0"),
    ),
    saved_inputs=(0, 2),
    saved_outputs=(1,),
    as_tuple=True,
    saves=False,
)
FIELDS = (
    (
        ("array", (3,), "float64", 1, -1, ("view", 0, PLACE), "cpu"),
        ("object",),
        ("fixed", b"pickled"),
        ("array", (), "int64", 0, 0, (), "cuda:0"),
    ),
    (0, 2),
    (1,),
    1,
    0,
)
LAYOUT = ((0,), ())
TOLD = (
    ("array", ((3,), "float64", 1, -1, ("view", 0, PLACE), "cpu", LAYOUT)),
    ("object", None),
    ("fixed", Blob(b"pickled")),
    ("array", ((), "int64", 0, 0, (), "cuda:0", None)),
    ("tuple", 1),
    ("saves", 0),
    ("holds", (8, ())),
)


def types(value: Any) -> Any:
    return [types(one) for one in value] if type(value) is tuple else type(value)


def test_in_a_node_it_has_the_tuple_that_it_always_had() -> None:
    assert signature_fields(SIGNATURE) == FIELDS
    assert types(signature_fields(SIGNATURE)) == types(FIELDS), "a bool is another byte than 0 or 1"


def test_it_comes_back_field_by_field() -> None:
    back = signature_of(FIELDS, "of node 0")
    assert back == SIGNATURE
    assert [type(one) for one in back.outputs] == [type(one) for one in SIGNATURE.outputs]
    assert (type(back.as_tuple), type(back.saves)) == (bool, bool)


def test_in_a_record_it_stands_with_layouts_and_other_facts() -> None:
    told = told_outputs(SIGNATURE, [LAYOUT, None, None, None], (("holds", (8, ())),))
    assert [(kind, types(body)) for kind, body in told] == [(kind, types(body)) for kind, body in TOLD]
    assert told[:2] == TOLD[:2]
    signature, layouts, facts = read_function_run(told, (0, 2), (1,))
    assert signature == SIGNATURE
    assert layouts == (LAYOUT, None, None, None)
    assert facts["holds"] == (8, ())


def broken(position: int, value: Any) -> tuple[Any, ...]:
    return (*FIELDS[:position], value, *FIELDS[position + 1 :])


def output(position: int, value: Any) -> tuple[Any, ...]:
    fields = FIELDS[0][0]
    return broken(0, ((*fields[:position], value, *fields[position + 1 :]),))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (FIELDS[:4], "expected signature of node 7 is not 5 fields"),
        (broken(0, 3), "expected outputs of node 7"),
        (broken(0, (("ghost",),)), "expected output of node 7 is neither an array nor an object"),
        (broken(0, ((),)), "expected output of node 7 is neither an array nor an object"),
        (broken(0, (("object", 1),)), "expected output of node 7 is neither an array nor an object"),
        (broken(0, (("fixed", "text"),)), "expected output of node 7 is not bytes"),
        (broken(0, (("array", ()),)), "expected output of node 7 is not 6 fields"),
        (output(1, (-1,)), "shape of an expected output of node 7"),
        (output(2, None), "dtype of an expected output"),
        (output(3, 2), "mark of differentiability of an expected output"),
        (output(4, -2), "twin of an expected output"),
        (output(5, 3), "origin of an expected output"),
        (output(5, ("lost", 0)), "origin of an expected output of node 7 is none of captured, dirty, same, view"),
        (output(5, ("view", 0, (1,))), "origin of an expected output"),
        (output(5, ("same", -2)), "origin of an expected output"),
        (output(6, 0), "device of an expected output"),
        (broken(1, (-1,)), "expected saved inputs"),
        (broken(2, None), "expected saved outputs"),
        (broken(3, True), "mark of a tuple"),
        (broken(4, 2), "mark of what saves"),
    ],
)
def test_a_malformed_one_is_refused_by_the_name_of_the_field(fields: Any, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        signature_of(fields, "of node 7")
