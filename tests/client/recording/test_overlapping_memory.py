"""Memory that several tensors, arrays and user code of a program share: each sees what the others change (DR-03)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "eager": nullcontext,
    "in process": rg.Session,
    "two workers": lambda: rg.Session(workers=2),
    "strict": lambda: rg.Session(strict=True),
}


@pytest.fixture(params=MODES.values(), ids=list(MODES), autouse=True)
def opened(request: Any) -> Any:
    with request.param() as session:
        yield session


def sync() -> None:
    assert (rg.ones(1) + 1.0).item() == 2.0


class Times(rg.autograd.Function):
    """x times the sum of an array."""

    @staticmethod
    def forward(ctx: Any, x: Any, array: Any) -> Any:
        ctx.total = float(np.sum(array))
        return x * ctx.total

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.total, None


def test_dr_03_two_tensors_over_one_array_are_one() -> None:
    array = np.zeros(2)
    one, two = rg.from_numpy(array), rg.from_numpy(array)
    one.add_(1.0)
    assert (two * 2.0).tolist() == [2, 2]
    two.add_(1.0)
    assert (one * 2.0).tolist() == [4, 4]
    assert rg.as_tensor(array).tolist() == [2, 2]


def test_dr_03_tensors_over_parts_of_one_array_see_each_others_changes() -> None:
    array = np.arange(4.0)
    left, right = rg.from_numpy(array[:3]), rg.from_numpy(array[1:])
    left.add_(1.0)
    right.mul_(10.0)
    seen = left * 1.0
    sync()
    assert array.tolist() == [1, 20, 30, 30]
    assert seen.tolist() == left.tolist() == [1, 20, 30]


def test_dr_03_a_function_sees_what_was_changed_in_an_array_that_it_is_given() -> None:
    array = np.zeros(2)
    x = rg.ones(2, dtype=rg.float64, requires_grad=True)
    rg.from_numpy(array).add_(1.0)
    y = Times.apply(x * 1.0, array)
    rg.from_numpy(array).add_(1.0)
    z = Times.apply(x, [array])
    (y + z).sum().backward()
    assert y.tolist() == [2, 2]
    assert x.grad is not None
    assert x.grad.tolist() == [6, 6]


def test_dr_03_code_sees_what_was_changed_in_an_array_that_it_captures() -> None:
    array = np.zeros(2)
    tensor = rg.from_numpy(array)

    class Scaled(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * float(array.sum())

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * float(array.sum())

    x = rg.ones(2, dtype=rg.float64, requires_grad=True)
    Scaled.apply(x)
    tensor.add_(1.0)
    y = Scaled.apply(x)
    y.register_hook(lambda grad: grad * float(array.sum()))
    between = y * 1.0
    tensor.add_(1.0)
    y.sum().backward()
    assert y.tolist() == between.tolist() == [2, 2]
    assert x.grad is not None
    assert x.grad.tolist() == [16, 16]


def test_en_07_what_is_accumulated_is_in_the_array_of_a_gradient() -> None:
    held = np.full(2, 5.0)
    x = rg.ones(2, dtype=rg.float64, requires_grad=True)
    x.grad = rg.from_numpy(held)
    (x * 2.0).sum().backward()
    sync()
    assert held.tolist() == [7, 7]


def test_cx_14_a_tensor_whose_data_is_an_array_shares_its_memory() -> None:
    array = np.ones(2)
    weight = rg.zeros(2, dtype=rg.float64, requires_grad=True)
    weight.data = rg.from_numpy(array)
    optimizer = rg.optim.SGD([weight], lr=0.5)
    for step in range(2):
        optimizer.zero_grad()
        (weight * 2.0).sum().backward()
        optimizer.step()
        sync()
        assert array.tolist() == [-step, -step]
    array[0] = 7.0
    assert (weight * 1.0).tolist() == [7, -1]


@pytest.mark.parametrize("change", [lambda t: t.add_(1.0), lambda t: t[1:].zero_(), lambda t: Doubles.apply(t)])
@pytest.mark.parametrize("array", [np.arange(3.0), np.broadcast_to(np.arange(3.0), (2, 3))], ids=["plain", "expanded"])
def test_dr_03_memory_that_is_read_only_is_not_changed(array: Any, change: Any) -> None:
    array = array[...]
    array.flags.writeable = False
    with pytest.raises(RuntimeError, match="memory is read-only"):
        change(rg.from_numpy(array))


class Doubles(rg.autograd.Function):
    """Doubles its argument in place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        x.mul_(2.0)
        return x
