"""Records the programs of `recorded_programs`: their graphs and measured costs, from sessions on a local Ray.

    python benchmarks/record_programs.py                      all of them, two minutes on an idle machine
    python benchmarks/record_programs.py seismic pipeline

Functions of ensembles, pipeline and assimilation sleep instead of computing, so that other processes do not change
their times; `seismic` and `digits` are the examples. Kept are the graph of the last step and the times of its nodes.
"""

# ruff: noqa: E402 - BLAS reads the number of its threads when NumPy is imported

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import base64
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from recorded_programs import FOLDER

import raygrad as rg
from raygrad.proto.codec.graphs import encode_graph
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.planning import planner

EXAMPLES = Path(__file__).parents[1] / "examples"
STEPS = 6
PARAMETERS = 1_000

Step = Callable[[], Any]


def member(forward: float, backward: float, kept: int, out: int) -> Any:
    """Return a Function that takes these seconds, keeps bytes for backward and makes an array of `out` bytes."""

    class Member(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, number: int) -> Any:
            time.sleep(forward)
            ctx.kept = np.zeros(kept // 8)
            return rg.from_numpy(np.full(out // 8, x.numpy()[0] + number))

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            time.sleep(backward)
            return rg.from_numpy(np.full(PARAMETERS, grad.numpy()[0])), None

    return Member


def ensemble(functions: Sequence[Any], join: str) -> Step:
    """Return a step of an ensemble: its losses are stacked, folded, or those of the squared sum of its outputs."""
    x = rg.tensor(np.zeros(PARAMETERS), requires_grad=True)

    def step() -> Any:
        x.grad = None
        outputs = [function.apply(x, number) for number, function in enumerate(functions)]
        if join == "stack":
            loss = rg.stack([output.sum() for output in outputs]).sum()
        elif join == "fold":
            loss: Any = 0.0
            for output in outputs:
                loss = loss + (output * 2.0).sum()
        else:
            total: Any = sum(outputs)
            loss = (total**2).sum()
        loss.backward()
        gradient: Any = x.grad
        return gradient.numpy()

    return step


def uneven() -> Step:
    """Return an ensemble of branches of lognormal durations."""
    factors = np.exp(np.random.default_rng(0).normal(0, 0.6, 16))
    return ensemble([member(0.0175 * one, 0.0175 * one, 8_000_000, 1_000_000) for one in factors.tolist()], "stack")


def stage(seconds: float) -> Any:
    """Return a Function that is one stage of a pipeline."""

    class Stage(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any) -> Any:
            time.sleep(seconds)
            ctx.save_for_backward(x, weight)
            return rg.from_numpy(x.numpy() + weight.numpy()[0])

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            time.sleep(2 * seconds)
            _, weight = ctx.saved_tensors
            return rg.from_numpy(grad.numpy() * 1.0), rg.from_numpy(np.ones(len(weight.numpy())))

    return Stage


def pipeline() -> Step:
    """Return a training step of 4 stages on 8 microbatches."""
    stages = [stage(0.01) for _ in range(4)]
    weights = [rg.tensor(np.zeros(100_000), requires_grad=True) for _ in stages]
    batches = [rg.tensor(np.full(50_000, float(number))) for number in range(8)]
    optimizer = rg.optim.SGD(weights, lr=0.1)

    def step() -> Any:
        optimizer.zero_grad()
        loss: Any = 0.0
        for x in batches:
            for one, weight in zip(stages, weights, strict=True):
                x = one.apply(x, weight)
            loss = loss + (x * x).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


class Propagate(rg.autograd.Function):
    """A model of the atmosphere, from one observation to the next."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        time.sleep(0.02)
        ctx.trajectory = np.zeros((10, 20_000))
        return rg.from_numpy(x.numpy() * 0.99)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        time.sleep(0.04)
        return rg.from_numpy(grad.numpy() * 0.99)


def assimilation() -> Step:
    """Return a step of weak-constraint 4-D variational assimilation: 8 windows of 3 observations, whose states at
    their ends are compared with the next window's beginning."""
    states = [rg.tensor(np.full(20_000, float(number)), requires_grad=True) for number in range(8)]
    observed = [[rg.tensor(np.full(20_000, float(number))) for _ in range(3)] for number in range(8)]
    optimizer = rg.optim.SGD(states, lr=0.1)

    def step() -> Any:
        optimizer.zero_grad()
        terms: list[Any] = []
        end = None
        for state, observations in zip(states, observed, strict=True):
            if end is not None:
                terms.append(((state - end) ** 2).sum())
            end = state
            for one in observations:
                end = Propagate.apply(end)
                terms.append(((end - one) ** 2).sum())
        loss: Any = sum(terms)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def seismic() -> Step:
    """Return an iteration of `examples/seismic`."""
    sys.path.insert(0, str(EXAMPLES / "seismic"))
    acoustics, experiment, invert = map(importlib.import_module, ("acoustics", "experiment", "invert"))
    world, shots = experiment.ground(), experiment.survey(8)
    waves = invert.seismogram(acoustics.Medium)
    true = experiment.courant(rg.tensor(world.true))
    observed = [waves.apply(true, shot) for shot in shots]
    velocity = rg.tensor(world.initial).requires_grad_()
    velocity.register_hook(invert.direction)
    optimizer = rg.optim.SGD([velocity], lr=invert.STEP, momentum=invert.MOMENTUM)

    def step() -> Any:
        optimizer.zero_grad()
        loss = invert.misfit(velocity, waves, shots, observed)
        loss.backward()
        optimizer.step()
        with rg.no_grad():
            velocity.clamp_(invert.SLOWEST, invert.FASTEST)
        return loss.item()

    return step


def digits() -> Step:
    """Return a training step of `examples/digits.py`."""
    sys.path.insert(0, str(EXAMPLES))
    example = importlib.import_module("digits")
    random = np.random.default_rng(0)
    parameters = example.initial_parameters()
    optimizer = rg.optim.SGD(parameters, lr=example.LEARNING_RATE, momentum=example.MOMENTUM)
    x, target = random.standard_normal((example.BATCH, 64)), np.eye(10)[random.integers(0, 10, example.BATCH)]

    def step() -> Any:
        optimizer.zero_grad()
        loss = example.loss_of(parameters, example.branches_of(x, target))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def sixteen() -> list[Any]:
    """Return 16 times the same member of 35 ms that keeps 8 MB."""
    return [member(0.0175, 0.0175, 8_000_000, 1_000_000)] * 16


PROGRAMS: dict[str, Callable[[], Step]] = {
    "ensemble-16-stack": lambda: ensemble(sixteen(), "stack"),
    "ensemble-16-fold": lambda: ensemble(sixteen(), "fold"),
    "ensemble-16-joint": lambda: ensemble(sixteen(), "joint"),
    "ensemble-8-long": lambda: ensemble([member(0.15, 0.15, 8_000_000, 1_000_000)] * 8, "stack"),
    "ensemble-64-short": lambda: ensemble([member(0.001, 0.001, 100_000, 8_000)] * 64, "stack"),
    "ensemble-16-uneven": uneven,
    "pipeline": pipeline,
    "assimilation": assimilation,
    "seismic": seismic,
    "digits": digits,
}


def record(name: str) -> None:
    """Run a program and write its file."""
    seen: list[tuple[Any, ...]] = []
    real = planner.make_plan

    def noted(*arguments: Any, **options: Any) -> Any:
        seen.append(arguments)
        return real(*arguments, **options)

    planner.make_plan = noted
    try:
        with rg.Session("ray", workers=2) as session:
            step = PROGRAMS[name]()
            for _ in range(STEPS):
                step()
            costs = session.costs.model
    finally:
        planner.make_plan = real
    most = max(len(arguments[0].nodes) for arguments in seen)
    graph, residency = next(one[:2] for one in reversed(seen) if len(one[0].nodes) > 0.6 * most)
    data = {
        "graph": base64.b64encode(encode_graph(graph)).decode(),
        "residency": residency,
        "microseconds": [round(1e6 * seconds) for seconds in PricedGraph(graph, costs).seconds],
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(data) + "\n")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    home = os.getcwd()
    os.chdir(tempfile.gettempdir())  # Ray puts the driver's folder on every worker's path
    for program in sys.argv[1:] or PROGRAMS:
        record(program)
    os.chdir(home)
