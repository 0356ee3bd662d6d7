"""Calls and outcomes: plain data about nested tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from raygrad.interop.calls import (
    DerivativeKind,
    ForeignCall,
    Outcome,
    TensorPlaceholder,
    decoded,
    encoded,
    flattened_arguments,
    identity_of,
    present_results,
)


class Pair(NamedTuple):
    left: Any
    right: Any


def is_text(leaf: Any) -> bool:
    return isinstance(leaf, str)


def test_arguments_come_back_with_tensors_in_their_places_and_constants_in_theirs() -> None:
    given = (({"a": "x", "n": 3}, ["y", None]), {"pair": Pair("z", 2.5)})
    tensors, structure, leaves = flattened_arguments(given, is_text)
    assert tensors == ["x", "y", "z"]
    assert leaves == (TensorPlaceholder.TENSOR, 3, TensorPlaceholder.TENSOR, None, TensorPlaceholder.TENSOR, 2.5)
    call = decoded(encoded(ForeignCall(structure, leaves, 2)))
    assert call.arguments(["own", "too", 1, 2, 3]) == (({"a": 1, "n": 3}, [2, None]), {"pair": Pair(3, 2.5)})


def test_a_derivative_is_a_call_with_one_level_more() -> None:
    _, structure, leaves = flattened_arguments((("x",), {}), is_text)
    call = ForeignCall(structure, leaves, 0)
    above = call.above(DerivativeKind.VJP, 1, [0], [True, False]).above(DerivativeKind.JVP, 2, [1])
    assert [(level.kind, level.inputs, level.chosen, level.given) for level in above.levels] == [
        (DerivativeKind.VJP, 1, (0,), (True, False)),
        (DerivativeKind.JVP, 2, (1,), ()),
    ]
    assert encoded(above) != encoded(call)
    assert decoded(encoded(above)) == above


def test_what_is_neither_a_tensor_nor_plain_is_refused_where_that_is_asked() -> None:
    with pytest.raises(LookupError, match="object"):
        flattened_arguments(["x", object()], is_text, lambda leaf: LookupError(type(leaf).__name__))


def test_an_outcome_leaves_new_buffers_out() -> None:
    _, structure, leaves = flattened_arguments({"loss": "x", "name": 1}, is_text)
    assert Outcome(structure, (TensorPlaceholder.TENSOR, 1), 1).rebuilt(["loss", "buffer"]) == {
        "loss": "loss",
        "name": 1,
    }
    assert leaves == (TensorPlaceholder.TENSOR, 1)


def test_a_derivative_that_is_not_there_is_none() -> None:
    there, outcome = present_results([None, "x", None, "y"])
    assert there == ["x", "y"]
    assert outcome.rebuilt(["a", "b"]) == [None, "a", None, "b"]


def test_constants_that_python_finds_equal_are_told_apart() -> None:
    assert len({identity_of(1), identity_of(1.0), identity_of(True)}) == 3
    assert identity_of(0.0) != identity_of(-0.0)
    assert len({identity_of(complex(0.0, 0.0)), identity_of(complex(0.0, -0.0)), identity_of(complex(-0.0, 0.0))}) == 3
    with pytest.raises(TypeError):
        hash(identity_of([1]))
