from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg

pytestmark = pytest.mark.filterwarnings("ignore:.*(captures|changes) .* of your program")

BRANCHES = 6


def noting(notes: list[Any]) -> Any:
    """Return a Function that notes its runs, in a list of the client's."""

    class Notes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, number: Any) -> Any:
            notes.append(("forward", number, x is y))
            ctx.number = number
            return x * y + number

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            notes.append(("backward", ctx.number))
            return grad * 2, grad * 3, None

    return Notes


def ensemble(function: Any, place: Callable[[int], Any] | None = None) -> list[Any]:
    x: Any = rg.tensor(np.arange(4.0), requires_grad=True)
    total: Any = None
    for number in range(BRANCHES):
        if place is None:
            one = function.apply(x, x, number).sum()
        else:
            with place(number):
                one = function.apply(x, x, number).sum()
        total = one if total is None else total + one
    total.backward()
    return [total.item(), *x.grad.tolist()]


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("placed", [False, True], ids=["planned", "placed"])
def test_code_that_changes_what_it_captures_keeps_program_order(workers: int, placed: bool):
    expected: list[Any] = []
    values = ensemble(noting(expected))
    with rg.Session(workers=workers):
        for _ in range(3):
            notes: list[Any] = []
            place = (lambda number: rg.place(worker=number % workers)) if placed else None
            assert ensemble(noting(notes), place) == values
            assert notes == expected


def test_hooks_that_change_what_they_capture_keep_the_order_of_the_pass():
    def run() -> tuple[list[Any], list[Any]]:
        notes: list[Any] = []

        def noted(number: int) -> Any:
            def hook(grad: Any) -> Any:
                notes.append(number)
                return grad * 2

            return hook

        x: Any = rg.tensor(np.arange(4.0), requires_grad=True)
        total: Any = None
        for number in range(BRANCHES):
            y = (x * number).exp()
            y.register_hook(noted(number))
            total = y.sum() if total is None else total + y.sum()
        total.backward()
        return x.grad.tolist(), notes

    expected, order = run()
    with rg.Session(workers=3):
        gradient, notes = run()
    assert gradient == expected
    assert notes == order


def test_explaining_leaves_what_was_recorded_as_it_was():
    notes: list[Any] = []
    function = noting(notes)
    x: Any = rg.tensor(np.arange(4.0), requires_grad=True)
    with rg.Session(workers=2) as session:
        function.apply(x, x, 0)
        with session.deferred():
            y = function.apply(x, x, 0)
            y = function.apply(y, y, 0)
            first = str(session.explain(y))
            second = str(session.explain(y))
        assert first == second
        assert y.tolist() == [0.0, 1.0, 16.0, 81.0]


def test_a_compiled_step_keeps_program_order():
    notes: list[Any] = []
    function = noting(notes)
    with rg.Session(workers=2) as session:
        step = session.compile(lambda x: sum([function.apply(x, x, number).sum() for number in range(3)]))
        x: Any = rg.tensor(np.arange(4.0))
        for _ in range(3):
            notes.clear()
            assert float(step(x)) == 54.0
            assert [number for _, number, _ in notes] == [0, 1, 2]


def test_graphs_with_such_code_are_recognised():
    with rg.Session(workers=2) as session:
        function = noting([])
        for _ in range(8):
            ensemble(function)
        assert session._submitter._graphs.found >= 2


def test_by_default_user_code_runs_on_one_thread():
    class Waits(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            STOP.wait(0.005)
            return x * 0 + threading.get_ident()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            STOP.wait(0.005)
            return grad * 0 + threading.get_ident()

    with rg.Session():
        for _ in range(3):
            x: Any = rg.tensor(np.zeros(4), requires_grad=True)
            branches = [Waits.apply(x * number) for number in range(4)]
            total: Any = sum([one.sum() for one in branches])
            total.backward()
            assert {value for one in branches for value in one.tolist()} == {float(threading.get_ident())}


STOP = threading.Event()


def test_code_that_changes_nothing_runs_at_the_same_time():
    class Meets(rg.autograd.Function):
        """Waits for another run of itself if its argument says so."""

        @staticmethod
        def forward(ctx: Any, together: Any) -> Any:
            if together.item():
                MEETING.wait(20)
            return together * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    with rg.Session(workers=2):
        for together in (0.0, 0.0, 1.0, 1.0):
            x: Any = rg.tensor(together)
            made: list[Any] = []
            for worker in range(2):
                with rg.place(worker=worker):
                    made.append(Meets.apply(x))
            assert [one.item() for one in made] == [together * 2] * 2


MEETING = threading.Barrier(2)


@pytest.mark.parametrize("workers", [None, 1, 3])
def test_calls_with_numbers_alone_keep_program_order_too(workers: int | None):
    notes: list[Any] = []

    class Makes(rg.autograd.Function):
        """Makes an array of a number, and tells how many have been made."""

        @staticmethod
        def forward(ctx: Any, number: Any) -> Any:
            notes.append(number)
            return rg.tensor([float(number), float(len(notes))])

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    class Adds(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, number: Any) -> Any:
            notes.append(-number)
            return x + float(len(notes))

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    def program() -> tuple[Any, Any]:
        notes.clear()
        x: Any = rg.tensor([1.0, 2.0])
        made = [one for number in range(5) for one in (Makes.apply(number), Adds.apply(x, number))]
        return [one.tolist() for one in made], list(notes)

    expected = program()
    with rg.Session(workers=workers):
        for _ in range(3):
            assert program() == expected
