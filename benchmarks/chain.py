"""Long chains in a session: what a node costs when half of them are pinned on each of two workers.

Every round records the chain afresh, or replays it by `session.compile`, forward and backward, runs it and reads the
gradient: what a training loop does. The plan is cached from the first rounds on. The anchor is one actor call per node,
all of them submitted ahead.
"""

# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import sys

import numpy as np
import ray
import ray.cloudpickle
from measure import Result, Subject, compare, elsewhere, per_unit

import raygrad as rg

START = np.linspace(0.1, 0.9, 4)


class Sin(rg.autograd.Function):
    """The custom Function of `eager.py`, in NumPy."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return rg.from_numpy(np.sin(x.numpy()))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return rg.from_numpy(grad.numpy() * np.cos(x.numpy()))


def custom(y):
    """One node."""
    return Sin.apply(y)


def builtin(y):
    """One node."""
    return y.sin()


def chain(node, length: int):
    """Return what takes half of the chain on each worker, forward and backward: one crossing each way."""

    def passes(x):
        y = x
        for worker in range(2):
            with rg.place(worker=worker):
                for _ in range(length // 2):
                    y = node(y)
        y.backward(rg.ones(4, dtype=rg.float64))

    return passes


def there_and_back(passes):
    """Take the chain from a new start, and wait for the gradient."""
    x = rg.tensor(START, requires_grad=True)
    passes(x)
    assert x.grad is not None
    return x.grad.numpy()


class Bare:
    """An actor with nothing of raygrad: a node is a call."""

    def forward(self, x):
        return np.sin(x)

    def backward(self, x, grad):
        return grad * np.cos(x)


def bare_calls(actors, length: int):
    """The same chain, one actor call per node and direction."""
    value, saved = START, []
    for actor in actors:
        for _ in range(length // 2):
            saved.append((actor, value))
            value = actor.forward.remote(value)
    grad = np.ones(4)
    for actor, x in reversed(saved):
        grad = actor.backward.remote(x, grad)
    return ray.get(grad)


def results(quick: bool) -> list[Result]:
    """Measure everything of this file."""
    length, bare_length = (2_000, 100) if quick else (10_000, 400)
    rounds = 3 if quick else 7
    kinds = (("custom Functions", custom, ("<= 50 µs", "")), ("built-in operations", builtin, ("<= 25 µs", "<= 12 µs")))
    work = "chain of {length:,} {kind}, 4 float64, forward + backward | node"
    found: dict[str, list[Result]] = {work.format(length=length, kind=kind): [] for kind, _, _ in kinds}

    def measure(session: rg.Session, name: str, bare: list[Subject]) -> None:
        for kind, node, aims in kinds:
            ways = (("recorded afresh", chain(node, length)), ("replayed", session.compile(chain(node, length))))
            ours: list[Subject] = []
            for (way, passes), aim in zip(ways, aims, strict=True):
                np.testing.assert_allclose(there_and_back(passes), expected, rtol=1e-12)
                run = per_unit(lambda passes=passes: there_and_back(passes), length)
                ours.append(Subject(f"{name}, {way}", run, "one Ray actor call per node", aim if bare else ""))
            title = work.format(length=length, kind=kind)
            found[title] += compare(title, [*bare, *ours], rounds)

    with elsewhere():
        with rg.Session("ray", workers=2) as session:
            ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
            actors = [ray.remote(Bare).options(num_cpus=0).remote() for _ in range(2)]
            expected = bare_calls(actors, length)
            calls = per_unit(lambda: bare_calls(actors, bare_length), bare_length)
            measure(session, "on two Ray workers", [Subject("one Ray actor call per node", calls)])
            for actor in actors:
                ray.kill(actor)
        with rg.Session(workers=2) as session:
            measure(session, "in process", [])
    return [result for results in found.values() for result in results]
