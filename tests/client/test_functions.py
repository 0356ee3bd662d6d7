"""User Functions in a session: resolved by running, learned, differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import GraphError


class Both(rg.autograd.Function):
    """Two outputs, computed in NumPy; the second is an integer."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float = 2.0) -> Any:
        ctx.factor = factor
        return rg.from_numpy(x.numpy() * factor), rg.from_numpy(np.argsort(x.numpy()))

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        return rg.from_numpy(grad.numpy() * ctx.factor), None


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_h3_the_first_apply_runs_and_later_ones_do_not_wait(session: Any) -> None:
    x: Any = rg.tensor([3.0, 1.0], requires_grad=True)
    y, order = Both.apply(x, 2.0)
    first = session.last_run
    assert first is not None
    assert y.shape == (2,)
    assert order.dtype == rg.int64
    assert not order.requires_grad
    assert y.requires_grad
    z, _ = Both.apply(x, 2.0)
    assert session.last_run is first
    assert z.detach().numpy().tolist() == [6.0, 2.0]


def test_h3_nothing_is_computed_twice(session: Any) -> None:
    class Counts(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            rg.emit("ran", 1)
            return x * 1.0

    heard: list[int] = []
    session.on("ran", heard.append)
    y = Counts.apply(rg.tensor([1.0]))
    y.numpy()
    (y * 2.0).numpy()
    assert heard == [1]


def test_h3_other_arguments_are_another_key(session: Any) -> None:
    class Repeats(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, times: int) -> Any:
            return rg.from_numpy(np.tile(x.numpy(), times))

    x: Any = rg.tensor([1.0, 2.0])
    assert [Repeats.apply(x, n).shape for n in (1, 2, 3, 2)] == [(2,), (4,), (6,), (4,)]


def test_h3_a_function_that_changes_its_mind_is_told_so(session: Any) -> None:
    class Fickle(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return rg.from_numpy(np.zeros(int(x.numpy()[0])))

    assert Fickle.apply(rg.tensor([2.0])).shape == (2,)
    with pytest.raises(GraphError, match="Fickle behaved differently from its first run"):
        Fickle.apply(rg.tensor([3.0])).numpy()


def test_a_static_infer_avoids_the_first_wait(session: Any) -> None:
    class Known(rg.autograd.Function):
        @staticmethod
        def infer(x: Any) -> Any:
            return x.shape, x.dtype

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0] * 2.0

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    y = Known.apply(x)
    assert session.last_run is None
    y.sum().backward()
    assert x.grad.numpy().tolist() == [2.0, 4.0]


def test_ou_02_objects_among_the_outputs_come_back_as_they_are(session: Any) -> None:
    class Labels(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0, {"mean": float(x.numpy().mean())}, None

    for start in (1.0, 5.0):
        y, label, nothing = Labels.apply(rg.tensor([start, start]))
        assert (y.numpy().tolist(), label, nothing) == ([2 * start] * 2, {"mean": start}, None)


def test_h5_an_undefined_gradient_is_learned_and_then_known_without_waiting(session: Any) -> None:
    class Half(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    for _ in range(2):
        a: Any = rg.tensor([1.0], requires_grad=True)
        b: Any = rg.tensor([1.0], requires_grad=True)
        Half.apply(a, b).sum().backward()
        assert b.grad is None
        assert a.grad.numpy().tolist() == [1.0]
    assert next(iter(session.undefined.values()))[0] == (1,)


def test_h7_freeing_drops_one_claim_only(session: Any) -> None:
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * 2.0

    x: Any = rg.tensor(3.0, dtype=rg.float64, requires_grad=True)
    y = Square.apply(x)
    (g,) = rg.autograd.grad(y, x, create_graph=True)
    y.backward()
    g.backward()
    assert float(x.grad) == 8.0


def test_a_function_applied_before_the_session_is_differentiated_in_it() -> None:
    x: Any = rg.tensor([3.0, 1.0], dtype=rg.float64, requires_grad=True)
    y, _ = Both.apply(x, 5.0)
    with rg.Session(workers=1):
        (y * 2.0).sum().backward()
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [10.0, 10.0]


def test_a_second_backward_without_retaining_raises_as_it_does_eagerly(session: Any) -> None:
    class Keeps(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    x: Any = rg.tensor([1.0], requires_grad=True)
    y = Keeps.apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.sum().backward()
