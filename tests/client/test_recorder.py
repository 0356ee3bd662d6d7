"""Recording of built-in ops, gradients and hooks: specs at once, errors on the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import NotShippable


def tell_none(grad: Any) -> None:
    rg.emit("none", grad is None)


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_shapes_and_dtypes_are_known_while_recording(session: Any) -> None:
    x = rg.zeros(3, 4, dtype=rg.float64)
    y = (x @ rg.zeros(4, 2, dtype=rg.float64)).sum(0)
    assert (y.shape, y.dtype) == ((2,), rg.float64)
    assert session.last_run is None


def test_shape_errors_appear_on_the_line_that_makes_them(session: Any) -> None:
    with pytest.raises(RuntimeError, match=r"shape|size"):
        _ = rg.zeros(3) + rg.zeros(4)
    assert session.last_run is None


def test_a_data_dependent_shape_is_a_sync_point(session: Any) -> None:
    x: Any = rg.tensor([1.0, -1.0, 2.0])
    assert x[x > 0].shape == (2,)


def test_h5_a_hook_sees_an_undefined_gradient_as_none(session: Any) -> None:
    class Drops(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    x: Any = rg.tensor([1.0], requires_grad=True)
    y = x * 2.0
    y.register_hook(tell_none)
    Drops.apply(y).sum().backward()
    assert x.grad is None
    assert session.last_run.wait().emits == [("none", True)]


def test_h19_a_fan_in_is_a_balanced_tree_as_it_is_eagerly(session: Any) -> None:
    values = np.array([1e16, 1.0, -1e16, 1.0, 3.0, 1e-3, 7.0])

    def program() -> Any:
        x: Any = rg.tensor(1.0, dtype=rg.float64, requires_grad=True)
        total = x * float(values[0])
        for value in values[1:]:
            total = total + x * float(value)
        total.backward()
        return x.grad

    recorded = program().numpy()
    session.close()
    assert recorded.tobytes() == program().numpy().tobytes()


def test_h16_tensors_that_a_hook_captures_are_inputs_of_its_node(session: Any) -> None:
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    scale = rg.tensor([10.0, 100.0]) * 1.0  # pending
    x.register_hook(lambda grad: grad * scale)
    (x * 1.0).sum().backward()
    assert x.grad.numpy().tolist() == [10.0, 100.0]


def test_hooks_that_cannot_travel_are_refused_at_registration() -> None:
    import threading

    lock = threading.Lock()

    def guarded(grad: Any) -> Any:
        with lock:
            return grad

    with rg.Session(workers=1, strict=True):
        x: Any = rg.tensor([1.0], requires_grad=True)
        with pytest.raises(NotShippable, match="lock"):
            x.register_hook(guarded)
