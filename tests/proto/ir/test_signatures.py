"""What runs of Functions showed: which arguments they changed, and in which words one differs from another."""

from __future__ import annotations

from typing import Any

import pytest

from raygrad.proto.ir.signatures import (
    ObservedArray,
    ObservedFixed,
    ObservedObject,
    ObservedOutput,
    ObservedSignature,
    array_text,
)


def array(
    *shape: int, dtype: str = "float32", flows: bool = True, twin: int = -1, origin: tuple[Any, ...] = ()
) -> ObservedArray:
    return ObservedArray(shape, dtype, flows, twin, origin, "cpu")


def run(
    *outputs: ObservedOutput, inputs: Any = (), outs: Any = (), as_tuple: bool = False, saves: bool = False
) -> ObservedSignature:
    return ObservedSignature(outputs, inputs, outs, as_tuple, saves)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (run(array(2)), run(array(1)), "output 0 is float32[1], and was float32[2]"),
        (run(array(2)), run(array(2, dtype="int64")), "output 0 is int64[2], and was float32[2]"),
        (run(array(2)), run(ObservedObject()), "output 0 is an object that is no tensor, and was float32[2]"),
        (
            run(ObservedFixed(b"a")),
            run(ObservedFixed(b"b")),
            "output 0 is another description of a nesting than it was",
        ),
        (run(array(2)), run(array(2), array(2)), "it returned 2 outputs, and 1 then"),
        (run(array(2), array(2)), run(array(2)), "it returned 1 output, and 2 then"),
        (
            run(array(2)),
            run(array(2, origin=("same", 1))),
            "output 0 is argument 1 itself, and was a new tensor",
        ),
        (
            run(array(2, origin=("dirty", 0))),
            run(array(2, origin=("view", 0, ()))),
            "output 0 is a view of argument 0, and was argument 0 changed in place",
        ),
        (
            run(array(2), array(2)),
            run(array(2), array(2, twin=0, flows=False)),
            "output 1 is the same tensor as output 0, marked as non-differentiable, and was a new tensor",
        ),
        (
            run(array(2, origin=("captured", -1))),
            run(array(2)),
            "output 0 is a new tensor, and was a captured tensor",
        ),
        (run(inputs=(0, 2)), run(inputs=()), "of its arguments it saved none, and 0, 2 then"),
        (run(outs=()), run(outs=(1,)), "of its outputs it saved 1, and none then"),
        (run(as_tuple=True), run(as_tuple=False), "it returned no tuple, and one"),
        (run(as_tuple=False), run(as_tuple=True), "it returned a tuple, and none"),
        (run(saves=False), run(saves=True), "it saved something, and nothing then"),
        (run(saves=True), run(saves=False), "it saved nothing, and something then"),
    ],
)
def test_the_first_difference_is_told(before: ObservedSignature, after: ObservedSignature, told: str) -> None:
    assert before.diff(after) == told


def test_an_array_is_told_by_dtype_and_shape() -> None:
    assert (array_text((2, 3), "float32"), array_text((), "bool")) == ("float32[2, 3]", "bool[]")


def test_the_arguments_that_a_run_changed_are_those_of_dirty_outputs() -> None:
    outputs = [
        array(2, origin=("dirty", 3)),
        array(2, origin=("same", 1)),
        ObservedObject(),
        array(2),
        ObservedFixed(b""),
    ]
    assert run(*outputs).changed == {3}
    assert run(array(2)).changed == frozenset()
