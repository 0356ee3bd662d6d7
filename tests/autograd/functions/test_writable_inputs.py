"""`writable_inputs`: eagerly, in process and by value, what is given may be written to, and nobody else sees it."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import raygrad as rg


@contextlib.contextmanager
def nothing() -> Generator[None]:
    yield


@pytest.fixture(params=["eager", "inprocess", "strict"])
def place(request: pytest.FixtureRequest) -> Generator[str]:
    """Run a test without a session, and in sessions by reference and by value."""
    with nothing() if request.param == "eager" else rg.Session(workers=1, strict=request.param == "strict"):
        yield request.param


def doubles(array: Any) -> Any:
    """Return an array's memory as C would have it: refused for read-only arrays, and for others than C-contiguous."""
    return (ctypes.c_double * array.size).from_buffer(array)


class InPlace(rg.autograd.Function):
    """x**2, computed in the memory of x; its backward in that of the gradient and of what was saved."""

    writable_inputs = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        memory = doubles(x.numpy())
        for i in range(len(memory)):
            memory[i] *= memory[i]
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        result, factor = doubles(grad.numpy()), doubles(x.numpy())
        for i in range(len(result)):
            factor[i] *= 2.0
            result[i] *= factor[i]
        return grad


class Separate(rg.autograd.Function):
    """The same with a setup_context."""

    writable_inputs = True

    @staticmethod
    def forward(x: Any) -> Any:
        array = x.numpy()
        np.multiply(array, array, out=array)
        return x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        array = x.numpy()
        np.multiply(array, 2.0, out=array)
        return rg.from_numpy(grad.numpy() * array)


@pytest.mark.parametrize("function", [InPlace, Separate])
def test_its_own_writes_are_seen_by_nobody_else(place: str, function: Any) -> None:
    start = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x = rg.tensor(start, requires_grad=True)
    for times in (1, 2, 3):
        y = function.apply(x)
        assert y.tolist() == (start**2).tolist()
        y.sum().backward(retain_graph=True)
        assert x.grad is not None
        assert x.grad.tolist() == (2 * start * times).tolist()
    assert x.tolist() == start.tolist()


def test_transposed_and_expanded_arguments_are_given_in_c_order(place: str) -> None:
    start = np.arange(6.0).reshape(2, 3)
    x = rg.tensor(start, requires_grad=True)
    y = InPlace.apply(x.t()) + InPlace.apply(x.sum().expand(3, 2))
    y.sum().backward()
    assert y.tolist() == (start.T**2 + start.sum() ** 2).tolist()
    assert x.grad is not None
    assert x.grad.tolist() == (2 * start + 12 * start.sum()).tolist()


def test_one_tensor_given_twice_is_one_copy(place: str) -> None:
    class Both(rg.autograd.Function):
        writable_inputs = True

        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            a.numpy()[0] = 9.0
            return a + b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, grad

    x = rg.zeros(2)
    assert Both.apply(x, x).tolist() == [18.0, 0.0]
    assert x.tolist() == [0.0, 0.0]


def test_gradients_of_gradients_keep_their_history(place: str) -> None:
    class Cube(rg.autograd.Function):
        writable_inputs = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * 3.0 * x * x

    x = rg.tensor([2.0], dtype=rg.float64, requires_grad=True)
    (g,) = rg.autograd.grad(Cube.apply(x), x, create_graph=True)
    (gg,) = rg.autograd.grad(g, x)
    assert (g.item(), gg.item()) == (12.0, 12.0)


def test_marking_a_copy_as_changed_is_refused(place: str) -> None:
    class Marks(rg.autograd.Function):
        writable_inputs = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x

    with pytest.raises(RuntimeError, match="writable_inputs gives it copies"):
        Marks.apply(rg.zeros(2)).tolist()


def test_the_flag_has_to_be_a_bool() -> None:
    class Wrong(rg.autograd.Function):
        writable_inputs = "yes"

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

    with pytest.raises(RuntimeError, match="writable_inputs must be a bool, got str"):
        Wrong.apply(rg.zeros(2))


def test_it_may_be_set_later() -> None:
    class Later(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.numpy()[0] = 5.0
            return x * 1.0

    x = rg.zeros(2)
    Later.writable_inputs = True
    assert Later.apply(x).tolist() == [5.0, 0.0]
    assert x.tolist() == [0.0, 0.0]
