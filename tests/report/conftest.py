"""What the tests of the report room share: a run of a session, explained before and reported after."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.submission.run import Run
from raygrad.report.explanation import Explanation


class Twice(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return rg.from_numpy(x.numpy() * 2)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


class New(rg.autograd.Function):
    """Says what it returns: what it takes is unknown where it has not run."""

    @staticmethod
    def infer(x: Any) -> Any:
        return x.shape, x.dtype

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2


class Told(NamedTuple):
    explanation: Explanation
    run: Run


def step(session: Any, branches: int = 2, length: int = 2) -> Told:
    """Forward and backward over two workers with a hook, explained, then run."""
    x = rg.tensor(np.linspace(0.0, 1.0, 4), requires_grad=True)
    Twice.apply(x).sum().item()
    with session.deferred():
        x.register_hook(lambda grad: grad * 2)
        ends: list[Any] = []
        for branch in range(branches):
            with rg.place(worker=branch % 2):
                y = Twice.apply(x)
                for _ in range(length):
                    y = (y * 1.5).tanh()
                ends.append(y)
        total = ends[0]
        for end in ends[1:]:
            total = total + end
        total.sum().backward()
    explanation = session.explain()
    assert session.last_run is not None
    return Told(explanation, session.run().wait(30))


@pytest.fixture(scope="module")
def told() -> Generator[Told]:
    """A step of few nodes."""
    with rg.Session(workers=2) as session:
        yield step(session)


@pytest.fixture(scope="module")
def told_long() -> Generator[Told]:
    """A step of too many nodes to be drawn one by one."""
    with rg.Session(workers=2) as session:
        yield step(session, branches=6, length=40)
