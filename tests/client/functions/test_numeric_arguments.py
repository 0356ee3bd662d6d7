"""Which numbers are data, as runs show."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np
import pytest

from raygrad.client.functions.numeric_arguments import (
    NumericArguments,
    NumericRun,
    argument_texts,
    exact_numbers,
    is_number,
    plain_data,
)
from raygrad.client.functions.observed_signature import FunctionSignature
from raygrad.proto.ir.signatures import ObservedArray, ObservedSignature


def shows(extent: int, origin: Any = ()) -> FunctionSignature:
    """Return a signature with one output."""
    output = ObservedArray((extent,), "float64", True, -1, origin, "cpu")
    expected = ObservedSignature((output,), (), (), as_tuple=False, saves=False)
    return FunctionSignature(expected, (), (True,), (-1,), (), (), False, False, origins=(origin,))


def table(*runs: tuple[tuple[Any, ...], FunctionSignature]) -> NumericArguments:
    """Return what is known after some runs."""
    found = NumericArguments(runs[0][0])
    for values, signature in runs:
        found.observe(NumericRun(values, signature, values))
    return found


def presumed(known: NumericArguments, *values: Any) -> Any:
    """Return the extent that is presumed, None if the numbers have to be run first."""
    run = known.presumed(values)
    if run is None:
        return None
    observed: Any = run.signature.expected
    return observed.outputs[0].shape[0]


class Point(NamedTuple):
    """A class of a user's."""

    x: int


class Mode(enum.IntEnum):
    """An option."""

    ONE = 1


@pytest.mark.parametrize("value", [1, 1.0, 1j, float("nan"), np.float32(1), np.int8(1), np.complex64(1), np.uint64(1)])
def test_numbers(value: Any) -> None:
    assert is_number(value)


@pytest.mark.parametrize("value", [True, None, "1", b"1", Mode.ONE, np.bool_(True), np.timedelta64(1), np.array(1.0)])
def test_what_is_no_number(value: Any) -> None:
    assert not is_number(value)


def test_plain_data_is_known_by_its_structure_types_and_options() -> None:
    one, other = plain_data((1, [2.0, "a"], {"k": True}), 1), plain_data((5, [3.0, "a"], {"k": True}), 1)
    assert one is not None
    assert other is not None
    assert one.identity == other.identity
    assert hash(one.identity) == hash(other.identity)
    assert (one.numbers, one.places) == ([1, 2.0], ["1[0]", "1[1][0]"])
    for unlike in ((1.0, [2.0, "a"], {"k": True}), (1, [2.0, "b"], {"k": True}), (1, (2.0, "a"), {"k": True}), (1,)):
        found = plain_data(unlike, 1)
        assert found is not None
        assert found.identity != one.identity


def test_containers_that_hold_something_else_or_too_much_are_no_plain_data() -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    for value in ([1, object()], [np.ones(2)], {1.5: 2}, list(range(100)), endless, Point(1), [[0] * 40, [0] * 40]):
        assert plain_data(value, 0) is None


def test_floating_point_numbers_are_data_at_once() -> None:
    known = table(((0.1, 1j, np.float32(2)), shows(3)))
    assert presumed(known, 0.2, 2j, np.float32(3)) == 3


def test_an_integer_is_data_after_two_values_with_equal_facts() -> None:
    known = table(((1, 0.5), shows(3)))
    assert presumed(known, 1, 0.25) == 3
    assert presumed(known, 2, 0.5) is None
    known.observe(NumericRun((2, 0.5), shows(3), None))
    assert presumed(known, 7, 0.125) == 3


def test_an_integer_that_decides_is_never_data_and_the_others_are() -> None:
    known = table(((2, 0, 0.5), shows(2)), ((3, 1, 0.5), shows(3)))
    assert presumed(known, 3, 2, 0.5) is None
    known.observe(NumericRun((3, 2, 0.25), shows(3), None))
    assert presumed(known, 3, 9, 0.125) == 3
    assert presumed(known, 2, 0, 0.125) == 2
    assert presumed(known, 4, 0, 0.125) is None


def test_a_number_that_proved_to_decide_is_run_first_with_each_value() -> None:
    known = table(((0.5,), shows(2)), ((0.0,), shows(3)))
    assert presumed(known, 0.25) is None
    known.observe(NumericRun((0.25,), shows(2), None))
    assert presumed(known, 0.125) is None


def test_of_several_numbers_that_may_have_decided_those_that_do_not_are_found_out() -> None:
    known = table(((1, 0.5), shows(2)), ((2, 0.5), shows(2)))
    assert presumed(known, 3, 0.25) == 2
    known.observe(NumericRun((3, 0.0), shows(5), None))
    assert presumed(known, 4, 0.25) is None
    known.observe(NumericRun((4, 0.0), shows(5), None))
    assert presumed(known, 9, 0.0) == 5
    assert presumed(known, 9, 0.5) == 2
    assert presumed(known, 9, 0.75) is None


def test_what_was_refused_is_run_first() -> None:
    known = table(((0.5, 0.5), shows(2)))
    known.distrust(NumericRun((0.5, 0.5), shows(2), None), (0.0, 0.5))
    assert presumed(known, 0.25, 0.5) is None
    assert presumed(known, 0.5, 0.75) == 2


def test_an_output_that_is_an_argument_is_not_presumed() -> None:
    assert presumed(table(((0.5,), shows(2, ("same", 0)))), 0.25) is None
    assert presumed(table(((0.5,), shows(2, ("dirty", 0)))), 0.25) == 2


def test_runs_that_are_remembered_are_bounded() -> None:
    known = NumericArguments((0,))
    for value in range(200):
        known.observe(NumericRun((value,), shows(value), None))
    assert len(known._runs) == len(known._presumed) == 64


def test_numbers_are_told_apart_to_the_last_bit() -> None:
    nan = float("nan")
    assert exact_numbers((nan, 1)) == exact_numbers((float("nan"), 1))
    assert exact_numbers((0.0,)) != exact_numbers((-0.0,))
    assert exact_numbers((10**30,)) != exact_numbers((10**30 + 1,))
    assert exact_numbers((np.float32(1),)) != exact_numbers((np.float32(2),))


def test_arguments_are_named_as_forward_names_them() -> None:
    class Style:
        class _traits:
            setup = None

        @staticmethod
        def forward(ctx: Any, x: Any, rate: float, *rest: Any, scale: float) -> Any: ...

    found = list(argument_texts(Style, [1, 3, "scale"], [0.5, 2, 3.0]))
    assert found == ["argument 1 (rate) = 0.5", "argument 3 = 2", "argument scale = 3.0"]
