"""What runs of Functions showed, in words."""

from __future__ import annotations

from typing import Any

import pytest

from raygrad.workers.interpreter.mismatch_message import difference, spec_told


def array(*shape: int, dtype: str = "float32", flows: int = 1, twin: int = -1, origin: tuple[Any, ...] = ()) -> Any:
    return ("array", shape, dtype, flows, twin, origin)


def run(*kinds: Any, inputs: Any = (), outputs: Any = (), as_tuple: int = 0, saves: int = 0) -> Any:
    return (kinds, inputs, outputs, as_tuple, saves)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (run(array(2)), run(array(1)), "output 0 is float32[1], and was float32[2]"),
        (run(array(2)), run(array(2, dtype="int64")), "output 0 is int64[2], and was float32[2]"),
        (run(array(2)), run(("object",)), "output 0 is an object that is no tensor, and was float32[2]"),
        (run(("fixed", b"a")), run(("fixed", b"b")), "output 0 is another description of a nesting than it was"),
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
            run(array(2), array(2, twin=0, flows=0)),
            "output 1 is the same tensor as output 0, marked as non-differentiable, and was a new tensor",
        ),
        (
            run(array(2, origin=("captured", -1))),
            run(array(2)),
            "output 0 is a new tensor, and was a captured tensor",
        ),
        (run(inputs=(0, 2)), run(inputs=()), "of its arguments it saved none, and 0, 2 then"),
        (run(outputs=()), run(outputs=(1,)), "of its outputs it saved 1, and none then"),
        (run(as_tuple=1), run(as_tuple=0), "it returned no tuple, and one"),
        (run(saves=0), run(saves=1), "it saved something, and nothing then"),
    ],
)
def test_the_first_difference_is_told(before: Any, after: Any, told: str) -> None:
    assert difference(before, after) == told


def test_an_array_is_told_by_dtype_and_shape() -> None:
    assert (spec_told((2, 3), "float32"), spec_told((), "bool")) == ("float32[2, 3]", "bool[]")
