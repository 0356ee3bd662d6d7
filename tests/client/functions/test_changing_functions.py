"""A function as an argument that changes variables of its own is the program's in process; elsewhere a warning says
what is lost (FN-07)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from .changing_functions import KINDS, Calls, of_a_closure, program


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_fn_07_a_function_that_changes_its_variables_runs_at_once_in_process(name: str, workers: int) -> None:
    expected = program(KINDS[name])
    with rg.Session(workers=workers):
        assert program(KINDS[name]) == expected


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore:Calls.backward changed")
def test_fn_07_it_is_warned_of_where_it_is_a_copy(name: str) -> None:
    with rg.Session(strict=True), pytest.warns(UserWarning, match=r"Calls\.forward changed argument 1, an object"):
        program(KINDS[name])


def test_fn_07_a_copy_is_warned_of_in_backward_too() -> None:
    class CallsLater(Calls):
        @staticmethod
        def forward(ctx: Any, x: Any, function: Any) -> Any:
            ctx.function = function
            return x * 1.0

    def program() -> list[float]:
        x: Any = rg.ones(1, requires_grad=True)
        CallsLater.apply(x, of_a_closure()).backward()
        return x.grad.tolist()

    with rg.Session(strict=True), pytest.warns(UserWarning, match=r"CallsLater\.backward changed an argument"):
        assert program() == [1.0]


def test_fn_07_functions_that_change_nothing_cost_no_warning(session: Any) -> None:
    rates, rate = [2.0], 3.0

    def function() -> float:
        held = [rates[0]]
        held.append(rate)
        return sum(held)

    with session:
        x = rg.ones(1, requires_grad=True)
        Calls.apply(x, function).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [5.0]
