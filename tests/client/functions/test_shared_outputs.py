"""An output that eagerly is memory of the program's own is a copy in a session, and is warned of (DR-03)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import SessionError

array = np.arange(4.0)


def returning(make: Callable[..., Any]) -> Any:
    """Return a Function whose forward returns what `make` makes of its arguments."""

    class Returns(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, *others: Any) -> Any:
            return make(x, *others)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    return Returns


SHARED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "captured": (lambda x: rg.from_numpy(array), (), "an array that the code captures"),
    "part of it": (lambda x: rg.from_numpy(array[1:3]), (), "an array that the code captures"),
    "given": (lambda x, held: rg.from_numpy(held), (np.ones(4),), "argument 1"),
    "in a list": (lambda x, held: rg.from_numpy(held[0]), ([np.ones(4)],), "argument 1"),
    "of a tensor": (lambda x: rg.from_numpy(x.numpy().reshape(2, 2)), (), "argument 0"),
    "one of two": (lambda x: (x * 2, rg.from_numpy(array)), (), "an array that the code captures"),
}


@pytest.mark.parametrize("name", SHARED)
def test_dr_03_an_output_over_memory_of_the_program_is_warned_of(session: Any, name: str) -> None:
    make, others, what = SHARED[name]
    x = rg.ones(4, dtype=rg.float64)
    with session, pytest.warns(UserWarning, match=rf"Returns\.forward returned.*the memory of {what}.*rg\.tensor"):
        returning(make).apply(x, *others)


OWN: dict[str, Callable[..., Any]] = {
    "a copy": lambda x: rg.tensor(array),
    "a new array": lambda x: rg.from_numpy(x.numpy() * 2.0),
    "the argument": lambda x: x,
    "a view": lambda x: x.reshape(2, 2),
    "computed": lambda x: rg.from_numpy(array) + 1.0,
}


@pytest.mark.parametrize("name", OWN)
def test_dr_03_other_outputs_are_not_warned_of(session: Any, name: str) -> None:
    with session:
        returning(OWN[name]).apply(rg.ones(4, dtype=rg.float64)).tolist()


class Both(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        a.add_(10.0)
        b.mul_(2.0)
        ctx.mark_dirty(a, b)
        return a, b


def test_dr_03_overlapping_memory_that_one_function_changes_twice_is_refused(session: Any) -> None:
    base = np.arange(4.0)
    with session:
        made = Both.apply(rg.from_numpy(base[:3]), rg.from_numpy(base[1:]))
        with pytest.raises(SessionError, match=r"memory that overlaps.*one tensor, of which the others are views"):
            made[0].tolist()
