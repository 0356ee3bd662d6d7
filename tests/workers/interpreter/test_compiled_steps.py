"""Steps of large programs are compiled as they run, and not kept."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import GraphError
from raygrad.workers.interpreter import compiled_steps as module, functions, op_vjp


class Twice(rg.autograd.Function):
    pure = True

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Fails(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        raise ValueError("no forward here")

    @staticmethod
    def backward(ctx, g):
        return g


def gradient(fails: bool = False) -> bytes:
    x = rg.tensor(np.linspace(0.1, 1, 500), requires_grad=True)
    y: Any = x
    for _ in range(20):
        y = Twice.apply(y * 0.5).sin()
    if fails:
        y = Fails.apply(y)
    y.sum().backward()
    assert x.grad is not None
    return x.grad.numpy().tobytes()


@pytest.fixture
def on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_COMPILED", 0)


@pytest.mark.parametrize("memory", [None, 40_000])
def test_values_are_the_same_and_so_are_those_of_repeated_runs(on_demand: None, memory: int | None) -> None:
    expected = gradient()
    with rg.Session(workers=1, memory=memory):
        assert gradient() == expected
        assert gradient() == expected


def test_errors_name_their_own_step(on_demand: None) -> None:
    with rg.Session(workers=1), pytest.raises(ValueError, match="no forward here"):
        gradient(fails=True)


def test_no_step_stays_compiled(on_demand: None, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[weakref.ref[Any]] = []
    alive: list[int] = []
    make = module.compile_step

    def compile_step(*args: Any) -> Any:
        made = make(*args)
        compiled.append(weakref.ref(made))
        alive.append(sum(one() is not None for one in compiled))
        return made

    monkeypatch.setattr(module, "compile_step", compile_step)
    with rg.Session(workers=1):
        gradient()
        gc.collect()
        assert len(compiled) > 80
        assert max(alive) <= 3
        assert not any(one() is not None for one in compiled)


class Fickle(rg.autograd.Function):
    """Saves its input, of a large one its output."""

    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(y if x.item() > 50 else x)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_what_equal_steps_have_in_common_is_found_out_once(on_demand: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    def counted(name: str, real: Any) -> Any:
        def call(*args: Any) -> Any:
            found.append(name)
            return real(*args)

        return call

    with rg.Session(workers=1):
        gradient()
        monkeypatch.setattr(functions, "signature_of_run", counted("signature", functions.signature_of_run))
        monkeypatch.setattr(op_vjp, "get_op", counted("rule", op_vjp.get_op))
        gradient()
    assert 1 <= found.count("signature") <= 2  # one a segment
    assert 3 <= found.count("rule") <= 6  # mul, sin and sum


def test_an_equal_step_that_behaves_differently_is_an_error(on_demand: None) -> None:
    with rg.Session(workers=1):
        x = rg.tensor([1.0], requires_grad=True)
        y: Any = x
        for _ in range(10):
            y = Fickle.apply(y)
        with pytest.raises(GraphError, match="Fickle behaved differently from its first run"):
            y.item()
