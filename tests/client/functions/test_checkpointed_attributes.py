"""Attributes that a Function sets on its ctx in a checkpointed region are those of its first run, as eagerly, or what
would change them is refused (PP-08)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import CheckpointError


def regions() -> dict[str, tuple[Callable[[Any], Any], Callable[[], None]]]:
    """Return regions, each with what changes something that its Function reads."""
    rate, held, array = 2.0, [2.0], np.array([2.0, 2.0])

    class Reads(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.rate = rate
            return x * rate

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.rate

    class ReadsArray(Reads):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.rate = float(array[0])
            return x * ctx.rate

    class Given(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, rate: Any) -> Any:
            ctx.rate = rate if isinstance(rate, float) else rate[0]
            return x * ctx.rate

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.rate, None

    def change_rate() -> None:
        nonlocal rate
        rate = 5.0

    return {
        "variable": (Reads.apply, change_rate),
        "array": (ReadsArray.apply, lambda: array.fill(5.0)),
        "number": (lambda x: Given.apply(x, rate), change_rate),
        "list": (lambda x: Given.apply(x, held), lambda: held.__setitem__(0, 5.0)),
    }


@pytest.mark.parametrize("name", regions())
def test_pp_08_what_changes_attributes_before_the_pass_is_refused(session: Any, name: str) -> None:
    region, change = regions()[name]
    with session:
        x = rg.ones(2, requires_grad=True)
        y = rg.checkpoint(lambda x: region(x) * 3.0, x)
        change()
        with pytest.raises(CheckpointError, match=r"stores attributes on its ctx.*something that it reads"):
            y.sum().backward()


@pytest.mark.parametrize("name", regions())
def test_pp_08_what_is_changed_afterwards_does_not_count(session: Any, name: str) -> None:
    def program() -> Any:
        region, change = regions()[name]
        x = rg.ones(2, requires_grad=True)
        y = rg.checkpoint(lambda x: region(x) * 3.0, x)
        y.sum().backward()
        change()
        assert x.grad is not None
        return y.tolist(), x.grad.tolist()

    expected = program()
    with session:
        assert program() == expected


def test_pp_08_a_function_without_attributes_may_read_what_changes(session: Any) -> None:
    rate = 2.0

    class Reads(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * rate

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * rate

    def program() -> Any:
        nonlocal rate
        rate = 2.0
        x = rg.ones(2, requires_grad=True)
        y = rg.checkpoint(lambda x: Reads.apply(x) * 3.0, x)
        rate = 5.0
        y.sum().backward()
        assert x.grad is not None
        return y.tolist(), x.grad.tolist()

    expected = program()
    with session:
        assert program() == expected


@pytest.mark.filterwarnings("ignore:'Counts' changes 'count', an object of your program")
def test_pp_08_code_that_changes_what_it_stores_is_warned_of() -> None:
    count = 0

    class Counts(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            nonlocal count
            count += 1
            ctx.count = count
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.count

    with rg.Session():
        loss = rg.checkpoint(Counts.apply, rg.ones(2, requires_grad=True)).sum()
        with pytest.warns(UserWarning, match="'Counts' changes what it captures, stores attributes"):
            loss.backward()
