"""Arrays that user code captures to write to, as buffers: written at once in process, refused where they are copies."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import AutogradError

buffer = np.zeros(3)
held = SimpleNamespace(array=np.zeros(3))


class Doubled(rg.autograd.Function):
    scratch = np.zeros(3)

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        Doubled.scratch[:] = x.numpy()
        np.add(Doubled.scratch, x.numpy(), out=Doubled.scratch)
        return rg.tensor(Doubled.scratch)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


def variable(x: Any) -> Any:
    np.multiply(x.numpy(), 2.0, out=buffer)
    return rg.tensor(buffer)


def attribute(x: Any) -> Any:
    x.numpy().dot(np.eye(3) * 2.0, out=held.array)
    return rg.tensor(held.array)


def copied(x: Any) -> Any:
    np.copyto(buffer, x.numpy())
    return rg.tensor(buffer * 2.0)


def doubling(forward: Callable[[Any], Any]) -> Any:
    class Doubles(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return forward(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return rg.tensor(np.multiply(grad.numpy(), 2.0, out=buffer)) if forward is variable else grad * 2.0

    return Doubles


BUFFERS = {"class": Doubled, "variable": doubling(variable), "attribute": doubling(attribute)}


@pytest.mark.parametrize("opened", [nullcontext, rg.Session, lambda: rg.Session(workers=2)])
@pytest.mark.parametrize("function", BUFFERS.values(), ids=BUFFERS)
@pytest.mark.filterwarnings("ignore:.*run at once")
def test_a_captured_buffer_is_written_to_at_once_in_process(opened: Any, function: Any) -> None:
    x = rg.ones(3, dtype=rg.float64, requires_grad=True)
    with opened():
        y = function.apply(function.apply(x))
        y.sum().backward()
        assert y.tolist() == [4, 4, 4]
        assert x.grad is not None
        assert x.grad.tolist() == [4, 4, 4]


@pytest.mark.parametrize("function", [*BUFFERS.values(), doubling(copied)], ids=[*BUFFERS, "copied"])
@pytest.mark.filterwarnings("ignore:.*stays on the worker")
def test_a_captured_buffer_that_is_a_copy_is_refused_with_the_remedy(function: Any) -> None:
    with rg.Session(strict=True), pytest.raises((AutogradError, ValueError)) as caught:
        function.apply(rg.ones(3, dtype=rg.float64)).tolist()
    assert "rg.worker_local" in str(caught.value) or function is BUFFERS["attribute"]


def test_the_remedy_works() -> None:
    scratch = rg.worker_local(lambda: np.zeros(3))

    class Doubles(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return rg.tensor(np.multiply(x.numpy(), 2.0, out=scratch()))

    with rg.Session(strict=True):
        assert Doubles.apply(rg.ones(3)).tolist() == [2, 2, 2]
