"""What NumPy writes to memory of a saved tensor before the pass is what the pass reads, as eagerly (DR-03)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .test_shared_memory import MODES


class Squares(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def operation(weight: Any, x: Any) -> Any:
    return weight * x * weight


def function(weight: Any, x: Any) -> Any:
    return Squares.apply(weight) * x


def of_a_view(weight: Any, x: Any) -> Any:
    return weight[:].sin() * x


def views_of_views(weight: Any, x: Any) -> Any:
    kept = weight[:]
    return kept * x * weight.reshape(1, -1)[0][:]


def after_a_read(weight: Any, x: Any) -> Any:
    made = weight * x
    made.sum().item()
    return made


SAVING: dict[str, Callable[[Any, Any], Any]] = {
    one.__name__: one for one in (operation, function, of_a_view, views_of_views, after_a_read)
}


def gradients(saving: Callable[[Any, Any], Any], size: int = 3, step: int = 1) -> list[Any]:
    """Return the value and the gradients of two passes, with a write to the memory before each. With gaps a Function
    is given a copy eagerly, which a pass under create_graph reads there."""
    array = np.arange(1.0, size * step + 1.0)[::step]
    weight = rg.from_numpy(array).requires_grad_()
    x = rg.full((size,), 3.0, dtype=rg.float64, requires_grad=True)
    made = saving(weight, x)
    found: list[Any] = []
    for value in (2.0, 5.0):
        array[...] = value
        grads = rg.autograd.grad(made.sum(), [weight, x], retain_graph=True, create_graph=value == 5.0 and step == 1)
        found.append([gradient.detach().tolist() for gradient in grads])
    return [made.tolist(), *found]


@pytest.mark.parametrize("mode", list(MODES)[1:])
@pytest.mark.parametrize("name", SAVING)
@pytest.mark.parametrize(("size", "step"), [(3, 1), (1000, 1), (3, 2)], ids=["small", "large", "gaps"])
def test_dr_03_a_pass_reads_what_numpy_has_written_to_what_was_saved(
    mode: str, name: str, size: int, step: int
) -> None:
    expected = gradients(SAVING[name], size, step)
    with MODES[mode]():
        assert gradients(SAVING[name], size, step) == expected
    assert step > 1 or expected[1] != expected[2]


def test_dr_03_the_gradient_of_a_leaf_over_memory_goes_by_that(opened: Any) -> None:
    array = np.array([1.0, 2.0])
    weight = rg.from_numpy(array).requires_grad_()
    made = Squares.apply(weight)
    array[:] = 100.0
    made.sum().backward()
    assert weight.grad is not None
    assert (made.tolist(), weight.grad.tolist()) == ([1, 4], [200, 200])


def test_dr_03_what_a_change_in_place_has_saved_stays_as_it_was(opened: Any) -> None:
    array = np.array([1.0, 2.0])
    x = rg.tensor([3.0, 4.0], dtype=rg.float64, requires_grad=True)
    tensor = rg.from_numpy(array)
    tensor.mul_(x * 1.0)
    assert (rg.ones(1) + 1.0).item() == 2.0  # a sync point, after which the array has the product
    tensor.sum().backward()
    assert x.grad is not None
    assert (x.grad.tolist(), array.tolist()) == ([1, 2], [3, 8])


@pytest.fixture(params=MODES.values(), ids=list(MODES))
def opened(request: Any) -> Any:
    with request.param() as session:
        yield session
