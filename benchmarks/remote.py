"""Heavy nodes on Ray workers, beside bare Ray actors that do the same work in the same run.

Two branches on two workers, against two actors: what the second worker brings. One heavy node, forward and backward,
against the two calls that it is.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false

from __future__ import annotations

import sys

import numpy as np
import ray
import ray.cloudpickle
from measure import Result, Subject, compare, elsewhere, per_unit

import raygrad as rg

SIZE = 200
REPEATS = 40


def heavy(x, matrix):
    """Some fifty milliseconds of products on one core."""
    for _ in range(REPEATS):
        x = np.tanh(matrix @ x)
    return x


class Heavy(rg.autograd.Function):
    """A node that is worth a call: its backward costs what its forward does."""

    @staticmethod
    def forward(ctx, x, matrix):
        ctx.save_for_backward(matrix)
        return rg.from_numpy(heavy(x.numpy(), matrix.numpy()))

    @staticmethod
    def backward(ctx, grad):
        (matrix,) = ctx.saved_tensors
        return rg.from_numpy(heavy(grad.numpy(), matrix.numpy())), None


class Bare:
    """An actor with nothing of raygrad."""

    def run(self, x, matrix):
        return heavy(x, matrix)


def results(quick: bool) -> list[Result]:
    """Measure everything of this file."""
    rounds = 5 if quick else 15
    random = np.random.default_rng(0)
    start, weights = random.standard_normal((SIZE, SIZE)) / SIZE, random.standard_normal((SIZE, SIZE)) / SIZE
    ones = np.ones((SIZE, SIZE))

    def bare(chosen) -> None:
        forward = [actor.run.remote(start, weights) for actor in chosen]
        made = [actor.run.remote(ones, weights) for actor in chosen]
        ray.get([*forward, *made])

    def branches(places):
        def passes(xs, matrix):
            outputs = []
            for x, place in zip(xs, places, strict=True):
                with rg.place(worker=place):
                    outputs.append(Heavy.apply(x, matrix))
            rg.autograd.backward(outputs, [rg.from_numpy(ones) for _ in outputs])

        return passes

    def ours(passes, count: int) -> None:
        xs = [rg.tensor(start, requires_grad=True) for _ in range(count)]
        passes(xs, rg.from_numpy(weights))
        for x in xs:
            assert x.grad is not None
            x.grad.numpy()

    found: list[Result] = []
    with elsewhere(), rg.Session("ray", workers=2) as session:
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
        actors = [ray.remote(Bare).options(num_cpus=0).remote() for _ in range(2)]

        def subject(name: str, places, anchor: str, aim: str) -> list[Subject]:
            afresh, replayed = branches(places), session.compile(branches(places))
            return [
                Subject(name, per_unit(lambda: ours(afresh, len(places)), 1), anchor, aim),
                Subject(f"{name}, session.compile", per_unit(lambda: ours(replayed, len(places)), 1), anchor, aim),
            ]

        one = "one heavy node, forward + backward | pass"
        calls = "two calls of a bare actor"
        found += compare(
            one,
            [
                Subject(calls, per_unit(lambda: bare(actors[:1]), 1)),
                *subject("raygrad", (0,), calls, "<= 1.3"),
            ],
            rounds,
        )
        two = "two heavy branches, forward + backward | pass"
        pair, single = "two bare actors", "one bare actor"
        found += compare(
            two,
            [
                Subject(single, per_unit(lambda: bare([actors[0], actors[0]]), 1)),
                Subject(pair, per_unit(lambda: bare(actors), 1)),
                *subject("raygrad, both on one worker", (0, 0), single, ""),
                *subject("raygrad, on two workers", (0, 1), pair, "speed-up >= 0.95 of theirs"),
            ],
            rounds,
        )
        for actor in actors:
            ray.kill(actor)
    return found
