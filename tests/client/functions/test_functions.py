"""User Functions in a session: resolved by running, learned, differentiated."""

from __future__ import annotations

import threading
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


def test_h16_a_class_in_process_has_the_values_that_it_captured_when_applied(session: Any) -> None:
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    results = []
    for step in range(2):
        key = rg.tensor([1.0, 1.0]) + step  # pending: the class as it was written cannot read it on a worker

        class Times(rg.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, key: Any = key) -> Any:
                return x * key

            @staticmethod
            def backward(ctx: Any, grad: Any, key: Any = key) -> Any:
                return grad * key

        results.append(rg.autograd.grad(Times.apply(x).sum(), x)[0].tolist())
    assert results == [[1.0, 1.0], [2.0, 2.0]]


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


def test_ou_02_objects_among_the_outputs_come_back_as_they_are(session: Any) -> None:
    class Labels(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0, {"mean": float(x.numpy().mean())}, None

    for start in (1.0, 5.0):
        y, label, nothing = Labels.apply(rg.tensor([start, start]))
        assert (y.numpy().tolist(), label, nothing) == ([2 * start] * 2, {"mean": start}, None)


weight: Any = rg.tensor([3.0, 4.0], requires_grad=True)


class Reenters(rg.autograd.Function):
    """Computes its region again in backward, and leaves the weight's gradient to an inner pass."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * weight

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with rg.enable_grad():
            y = x * weight
        y.backward(grad)
        return x.grad


@pytest.mark.parametrize("strict", [False, True])
def test_h16_a_gradient_that_would_stay_on_a_worker_raises(strict: bool) -> None:
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    handle = weight.register_hook(lambda grad: grad)  # which only the client could run
    try:
        with (
            pytest.raises(RuntimeError, match=r"\.grad of a captured leaf of shape \[2\]") as caught,
            rg.Session(strict=strict),
        ):
            (Reenters.apply(x).sum() + weight.sum()).backward()
    finally:
        handle.remove()
    assert any("recorded at" in note and "test_functions.py" in note for note in caught.value.__notes__)
    assert weight.grad is None


def test_h16_a_hook_that_differentiates_a_graph_of_the_client_is_told_where_to_run() -> None:
    def run(client: bool) -> Any:
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        start = x.detach().requires_grad_()
        inner, y = (start * start).sin(), x * 2
        y.register_hook(lambda grad: rg.autograd.grad(inner, start, grad, retain_graph=True)[0], client=client)
        y.sum().backward()
        return x.grad.tolist()

    expected = run(False)
    with rg.Session():
        assert run(True) == expected
    with pytest.raises(RuntimeError, match="register a hook with client=True"), rg.Session():
        run(False)


@pytest.mark.parametrize("workers", [1, 2])
def test_code_that_waits_for_what_comes_after_it_raises(workers: int) -> None:
    lock = threading.Lock()  # which cannot travel: the code is used as it is, with the client's own tensors
    leaf: Any = rg.tensor([3.0, 4.0], requires_grad=True)

    class Reads(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            with lock:
                return grad * float(leaf.grad.sum())

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="a value that is computed only after it"), rg.Session(workers=workers):
        (Reads.apply(x).sum() + leaf.sum()).backward()


def test_tensors_in_arguments_are_read_as_they_are_at_the_application(session: Any) -> None:
    class Sums(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, terms: Any) -> Any:
            return x + terms["a"] + terms["b"]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    terms: Any = {"a": rg.tensor([10.0, 20.0]), "b": x * 100}  # the second is pending, and has history
    first = Sums.apply(x, terms)
    terms["a"] += 1
    second = Sums.apply(x, terms)
    assert (first.tolist(), second.tolist()) == ([111.0, 222.0], [112.0, 223.0])


def test_a_function_argument_that_fills_a_list_of_the_client_is_warned_of(session: Any) -> None:
    seen: list[Any] = []
    scale: Any = rg.tensor(2.0)

    class Applies(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, region: Any) -> Any:
            return region(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2, None

    def region(x: Any) -> Any:
        seen.append(1)
        return x * scale

    with pytest.warns(UserWarning, match="Applies.forward changed argument 1, an object, or its list"):
        assert Applies.apply(rg.ones(2), region).tolist() == [2.0, 2.0]
