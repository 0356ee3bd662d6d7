"""Each kind of spec has the tuple that it always had on the wire, and comes back from it field by field."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from raygrad.errors import ProtocolError
from raygrad.proto.codec.specs import spec_fields, spec_of, specs_of
from raygrad.proto.ir.specs import Spec

from ..all_kinds import SPECS


def test_there_is_one_of_each_kind() -> None:
    assert {type(spec) for spec, _ in SPECS} == {*get_args(Spec)}


@pytest.mark.parametrize(("spec", "fields"), SPECS)
def test_a_spec_has_the_tuple_that_it_always_had_and_comes_back(spec: Spec, fields: tuple[Any, ...]) -> None:
    assert spec_fields(spec) == fields
    assert type(spec_of(fields)) is type(spec)
    assert spec_of(fields) == spec


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (("array",), "spec is not 5 fields"),
        (("ghost", (), "", "cpu", None), "kind of a spec"),
        (("array", ("3",), "float64", "cpu", None), "shape of a spec"),
        (("array", (3,), None, "cpu", None), "dtype of a spec"),
        (("array", (3,), "float64", 0, None), "device of a spec"),
        (("array", (3,), "float64", "cpu", ((1,), ())), "axis order"),
        (("array", (3,), "float64", "cpu", ((0,),)), "layout of a spec"),
        (("context", (8,), "", "cpu", None), "bytes of a context and where it stays"),
        (("context", (8, 3), "", "cpu", None), "stay of a context"),
        (("context", (8, 0, 4, 4), "", "cpu", None), "holds bytes on 2 devices, which"),
        (("context", (8, 0), "float64", "cpu", None), "a spec of kind context has no such"),
        (("const", (8, 0), "", "cpu", None), "bytes of a constant"),
        (("const", (8,), "", "cuda:0", None), "a spec of kind const has no such"),
        (("object", (8,), "", "cpu", None), "a spec of kind object has no such"),
        (("unknown", (), "", "cpu", ((), ())), "a spec of kind unknown has no such"),
    ],
)
def test_a_malformed_spec_is_refused_by_the_name_of_the_field(fields: Any, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        specs_of((fields,))
