"""What programs compare with `is` stays itself in sessions: sentinels, constants, functions, classes, members of
enumerations; as arguments, defaults, attributes of ctx, keys, outputs, emits and in errors (DR-13)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import raygrad as rg

from . import common_object_programs, identity_programs as programs


def test_dr_13_objects_are_themselves_eagerly() -> None:
    assert programs.wrong_in(None) == []


def test_dr_13_objects_are_themselves_on_the_other_side_and_when_they_come_back(session: Any) -> None:
    with session:
        assert programs.wrong_in(session) == []


@pytest.mark.parametrize("mode", ["in process", "strict"])
def test_dr_13_objects_of_main_are_themselves(mode: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(programs.__file__)), mode], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def closure() -> tuple[Any, Any, Any, Any]:
    """Return a Function over what its function defines, and three objects that it tells apart."""

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    class Bare:
        pass

    class Slotted:
        __slots__ = ("name",)

    unset, named, bare, slotted = object(), Named("a"), Bare(), Slotted()
    other = object(), Named("a"), Bare(), Slotted()
    known = {unset: 1.0, named: 2.0, bare: 3.0, slotted: 4.0}

    class Tells(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, value: Any = unset) -> Any:
            return x * known.get(value, 0.0)

    return Tells, (unset, named, bare, slotted), other, known


def test_dr_13_objects_of_one_class_and_state_stay_apart(session: Any) -> None:
    tells, same, other, _ = closure()
    with session:
        assert [tells.apply(rg.ones(()), one).item() for one in same] == [1, 2, 3, 4]
        assert [tells.apply(rg.ones(()), one).item() for one in other] == [0, 0, 0, 0]
        assert tells.apply(rg.ones(())).item() == 1


def test_dr_13_what_arguments_hold_in_common_is_one_object(session: Any) -> None:
    expected = common_object_programs.values()
    assert len(set(expected)) > 4
    with session:
        assert common_object_programs.values() == expected


def test_h17_a_constant_that_is_changed_reads_what_it_was_when_it_was_recorded(session: Any) -> None:
    class Reads(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, tag: Any) -> Any:
            return x * tag.rank

    tag, before = programs.LOW, programs.LOW.rank
    try:
        with session:
            one = Reads.apply(rg.ones(()), tag)
            _ = one.item()
            two = Reads.apply(rg.ones(()), tag)
            tag.rank = 7
            three = Reads.apply(rg.ones(()), tag)
            assert (one.item(), two.item(), three.item()) == (1, 1, 7)
    finally:
        tag.rank = before


def test_dr_13_functions_made_in_a_function_are_themselves(session: Any) -> None:
    def square(x: Any) -> Any:
        return x * x

    cube = lambda x: x * x * x  # noqa: E731
    rates = {square: 2.0, cube: 3.0}

    class Applies(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, how: Any, same: Any) -> Any:
            ctx.how = how
            return how(x) * (rates[how] if same is how else 0.0)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * rates[ctx.how], None, None

    with session:
        for how, expected in ((square, (8.0, 2.0)), (cube, (24.0, 3.0))):
            x: Any = rg.tensor(2.0, requires_grad=True)
            y = Applies.apply(x, how, how)
            y.backward()
            assert (y.item(), x.grad.item()) == expected
        assert Applies.apply(rg.tensor(2.0), square, cube).item() == 0
