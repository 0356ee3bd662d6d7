"""What plans say that they take, beside what they take: on two Ray workers, the third run of each program.

Not a comparison of speeds: `fastest` and `slowest` of a result are meaningless here, and what counts is the ratio.
Each program runs in a session of its own, which knows nothing of costs but what it measured at its start and in the
two runs before.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from measure import Result, elsewhere
from step import example

import raygrad as rg

RUN = 3
"""The run whose prediction is held against what it took."""

MEMBERS, WIDTH, LAYERS = 16, 256, 4
STAGES, MICROBATCHES = 2, 8


class Demo:
    """One training step of the example: the pass, and the optimiser's step."""

    def __init__(self, session: rg.Session) -> None:
        self.session = session
        self.digits = example()
        self.x, self.target, *_ = self.digits.digits()
        self.parameters = self.digits.initial_parameters()
        self.optimizer = rg.optim.SGD(self.parameters, lr=0.1, momentum=0.9)
        self.batches = iter(self.digits.batches(len(self.x), 0))

    def once(self) -> list[Any]:
        """Take a step; return its runs."""
        rows = next(self.batches)
        self.optimizer.zero_grad()
        self.digits.loss_of(self.parameters, self.digits.branches_of(self.x[rows], self.target[rows])).backward()
        passed = self.session.run().wait()
        self.optimizer.step()
        return [passed, self.session.run().wait()]


class Layer(rg.autograd.Function):
    """`tanh(x @ weight)`, in NumPy."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        y = rg.from_numpy(np.tanh(x.numpy() @ weight.numpy()))
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, weight, y = (tensor.numpy() for tensor in ctx.saved_tensors)
        g = grad.numpy() * (1.0 - y**2)
        return rg.from_numpy(g @ weight.T), rg.from_numpy(x.T @ g)


def weights(count: int) -> list[rg.Tensor]:
    """Return square weights, from a fixed seed."""
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5 for _ in range(count)]
    return [rg.tensor(array, requires_grad=True) for array in arrays]


class Ensemble:
    """Networks that have nothing in common but their input, and the mean of their losses."""

    def __init__(self, session: rg.Session) -> None:
        self.session = session
        self.members = [weights(LAYERS) for _ in range(MEMBERS)]
        self.x = np.random.default_rng(1).standard_normal((128, WIDTH))

    def once(self) -> list[Any]:
        """Pass forward and backward; return the run."""
        losses: list[rg.Tensor] = []
        for member in self.members:
            y = rg.tensor(self.x)
            for weight in member:
                weight.grad = None
                y = Layer.apply(y, weight)
            losses.append((y * y).mean())
        rg.stack(losses).mean().backward()
        return [self.session.run().wait()]


class Pipeline:
    """Stages of layers, each on its own worker, through which microbatches pass."""

    def __init__(self, session: rg.Session) -> None:
        self.session = session
        self.stages = [weights(LAYERS) for _ in range(STAGES)]
        self.parts = np.random.default_rng(1).standard_normal((MICROBATCHES, 128, WIDTH))

    def once(self) -> list[Any]:
        """Pass forward and backward; return the run."""
        losses: list[rg.Tensor] = []
        for weight in [weight for stage in self.stages for weight in stage]:
            weight.grad = None
        for part in self.parts:
            y = rg.tensor(part)
            for number, stage in enumerate(self.stages):
                with rg.place(worker=number):
                    for weight in stage:
                        y = Layer.apply(y, weight)
            losses.append((y * y).mean())
        rg.stack(losses).mean().backward()
        return [self.session.run().wait()]


def ratio_of(make: Callable[[rg.Session], Any]) -> tuple[float, float]:
    """Return predicted and actual seconds of the run that counts."""
    with rg.Session("ray", workers=2) as session:
        program = make(session)
        for _ in range(RUN - 1):
            program.once()
        runs = program.once()
        return sum(run.plan.predicted_seconds for run in runs), sum(run.seconds for run in runs)


def results(quick: bool) -> list[Result]:
    """Measure everything of this file."""
    found: list[Result] = []
    rounds = 1 if quick else 3
    off: list[float] = []
    with elsewhere():
        for name, make in (("demo", Demo), ("ensemble", Ensemble), ("pipeline", Pipeline)):
            pairs = [ratio_of(make) for _ in range(rounds)]
            work = f"run {RUN} of {name}, two Ray workers | run"
            actual = [taken for _, taken in pairs]
            predicted = [said for said, _ in pairs]
            off.append(statistics.median([said / taken for said, taken in pairs]))
            found.append(Result(work, "actual", statistics.median(actual), min(actual), max(actual), rounds))
            found.append(
                Result(
                    work,
                    "predicted",
                    statistics.median(predicted),
                    min(predicted),
                    max(predicted),
                    rounds,
                    anchor="actual",
                )
            )
    middle = statistics.median([abs(one - 1.0) for one in off])
    aim = f"within 15 % in the median of the three; here {middle:.0%}"
    found[-1] = replace(found[-1], aim=aim)
    return found
