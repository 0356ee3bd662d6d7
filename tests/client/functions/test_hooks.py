"""Recording of hooks and emits: where they fire, what they see, and what cannot travel."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import NotShippable


def tell_none(grad: Any) -> None:
    rg.emit("none", grad is None)


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


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


@pytest.fixture(params=[{"workers": 1}, {"workers": 2}, {"strict": True}], ids=["one", "two", "strict"])
def sessions(request: pytest.FixtureRequest) -> Any:
    with rg.Session(**request.param) as session:
        yield session


def test_dr_06_a_captured_container_warns_once_in_every_kind_of_session(sessions: Any) -> None:
    seen: list[Any] = []

    def keep(grad: Any) -> None:
        seen.append(grad)

    x: Any = rg.tensor([1.0], requires_grad=True)
    y = x * 2.0
    with pytest.warns(UserWarning, match=r"'keep' captures 'seen'.*rg\.emit.*client=True") as caught:
        y.register_hook(keep)
    assert [warning.filename for warning in caught] == [__file__]
    y.register_hook(keep)  # again: warnings are errors here
    y.grad_fn.register_hook(lambda *grads: seen.append(grads), client=True)


def test_dr_06_a_hook_at_the_client_neither_travels_nor_waits_unless_it_reads(sessions: Any) -> None:
    import threading

    lock, seen = threading.Lock(), []

    def guarded(grad: Any) -> Any:
        with lock:
            seen.append(grad)
        return grad * 3.0

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2.0
    y.register_hook(guarded, client=True)
    y.sum().backward()
    run = sessions.last_run
    assert run.records == []
    assert x.grad.tolist() == [6.0, 6.0]
    assert (seen[0].tolist(), run.hooks) == ([1.0, 1.0], {})


def test_hk_17_an_optimiser_in_the_backward_pass_is_recorded_without_a_wait(sessions: Any) -> None:
    weights: list[Any] = [rg.tensor([1.0, -2.0], requires_grad=True) for _ in range(3)]
    optimizers = {weight: rg.optim.SGD([weight], lr=0.1, momentum=0.9) for weight in weights}

    def step(weight: Any) -> None:
        rg.emit("grad", weight.grad)
        optimizers[weight].step()
        optimizers[weight].zero_grad()

    for weight in weights:
        weight.register_post_accumulate_grad_hook(step)
    runs: list[Any] = []
    for _ in range(3):
        (weights[0] ** 2 + weights[1] ** 2 + weights[2] ** 2).sum().backward()
        runs.append(sessions.last_run)
        assert all(weight.grad is None for weight in weights)
    assert [run.records for run in runs] == [[], [], []]
    values = [weight.tolist() for weight in weights]
    assert values[0] == values[1] == values[2] != [1.0, -2.0]
    assert [len(run.emits) for run in runs] == [3, 3, 3]


def test_dr_08_a_step_in_a_pass_that_fails_is_undone_with_it(sessions: Any) -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise ArithmeticError("late")

    early: Any = rg.tensor([1.0], requires_grad=True)
    late: Any = rg.tensor([1.0], requires_grad=True)
    failing = Fails.apply(late)
    optimizer = rg.optim.SGD([early], lr=0.5)
    early.register_post_accumulate_grad_hook(lambda weight: optimizer.step())
    (early * 2.0 + failing).sum().backward()
    with pytest.raises(ArithmeticError, match="late"):
        early.tolist()
    assert early.grad is None
    assert early.tolist() == [1.0]


def test_what_cannot_be_emitted_is_named_with_its_line(session: Any) -> None:
    import threading

    with pytest.raises(NotShippable, match=r"rg\.emit\('lock', \.\.\.\) at .*test_hooks\.py:\d+"):
        rg.emit("lock", threading.Lock())
