"""Calls of a compiled function that differ in one thing alone: each kind has recordings of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.compile.compiled import MAX_RECORDINGS_PER_KIND


@pytest.fixture
def session() -> Iterator[rg.Session]:
    with rg.Session(workers=2) as session:
        yield session


def vector(*values: float, grad: bool = False, **options: Any) -> Any:
    return rg.tensor(list(map(float, values)), requires_grad=grad, **options)


def hooked(register: str) -> Any:
    x = vector(1, 2, grad=True)
    getattr(x, register)(unchanged)
    return x


def unchanged(tensor: Any) -> None:
    """A hook that returns nothing."""


def same(tensor: Any) -> Any:
    return tensor


def with_grad() -> Any:
    x = vector(1, 2, grad=True)
    x.grad = vector(3, 4)
    return x


def double_by_default() -> AbstractContextManager[None]:
    class Default:
        def __enter__(self) -> None:
            rg.set_default_dtype(rg.float64)

        def __exit__(self, *error: object) -> None:
            rg.set_default_dtype(rg.float32)

    return Default()


def under(
    mode: Callable[[], AbstractContextManager[Any]], usual: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> tuple[Any, Any]:
    """Return the same call in blocks of two kinds."""

    def call(step: Any, manager: AbstractContextManager[Any]) -> Any:
        with manager:
            return step(X)

    return (lambda step: call(step, usual())), (lambda step: call(step, mode()))


def calls(one: Callable[[], Any], other: Callable[[], Any]) -> tuple[Any, Any]:
    """Return calls with arguments that are made here."""
    return (lambda step: step(*one())), (lambda step: step(*other()))


X, Y = vector(1, 2), vector(3, 4)
LEAF = vector(1, 2, grad=True)
KINDS: dict[str, tuple[Any, Any]] = {
    "structure": calls(lambda: ((X, Y),), lambda: ([X, Y],)),
    "names": ((lambda step: step(X, first=2.0)), (lambda step: step(X, second=2.0))),
    "worker": under(lambda: rg.place(worker=1)),
    "whether gradients are recorded": under(rg.no_grad),
    "inference": under(rg.inference_mode, rg.no_grad),
    "saved-tensor hooks": under(lambda: rg.autograd.graph.saved_tensors_hooks(same, same)),
    "anomaly detection": under(rg.autograd.detect_anomaly),
    "casting": under(lambda: rg.autocast("cpu", dtype=rg.float16)),
    "default dtype": under(double_by_default),
    "shape": calls(lambda: (X,), lambda: (vector(1, 2, 3),)),
    "dtype": calls(lambda: (X,), lambda: (vector(1, 2, dtype=rg.float64),)),
    "layout": calls(lambda: (rg.ones(2, 3),), lambda: (rg.from_numpy(np.ones((2, 3), np.float32, order="F")),)),
    "requires grad": calls(lambda: (X,), lambda: (LEAF,)),
    "gradient": calls(lambda: (LEAF,), lambda: (with_grad(),)),
    "one tensor twice": calls(lambda: (X, Y), lambda: (X, X)),
    "hook": calls(lambda: (LEAF,), lambda: (hooked("register_hook"),)),
    "hook after accumulation": calls(lambda: (LEAF,), lambda: (hooked("register_post_accumulate_grad_hook"),)),
    "number": calls(lambda: (X, 2), lambda: (X, 3)),
    "type of a number": calls(lambda: (X, 1), lambda: (X, True)),
    "sign of zero": calls(lambda: (X, 0.0), lambda: (X, -0.0)),
    "sign of a complex zero": calls(lambda: (X, 0j), lambda: (X, -0j)),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("component", KINDS)
def test_calls_that_differ_in_one_thing_alone_do_not_share_recordings_nor_displace_them(
    session: rg.Session, component: str
) -> None:
    scale = 1.0

    def scaled(x: Any, *others: Any, **named: Any) -> Any:
        return (x[0] if type(x) in (tuple, list) else x) * scale

    step: Any = session.compile(scaled)
    one, other = KINDS[component]
    for _ in range(2):
        for option in range(MAX_RECORDINGS_PER_KIND):  # as many recordings of each kind as are kept of one
            scale = float(option)
            for call in (one, other):
                assert call(step).detach().flatten()[0].item() == option
        assert step.recorded == 2 * MAX_RECORDINGS_PER_KIND, step.reason
    assert step.replayed == 2 * MAX_RECORDINGS_PER_KIND
