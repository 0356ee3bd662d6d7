"""Programs of any kind keep to memory budgets, with the same bits."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad import chaos
from raygrad.errors import OverBudget, PlanError

SIZE = 20_000
ARRAY = 8 * SIZE


class Wave(rg.autograd.Function):
    """Holds an array as an attribute, and saves its arguments."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, k: float) -> Any:
        ctx.inner, ctx.k = np.sin(x.numpy()) * w.numpy() * k, k
        ctx.save_for_backward(x, w)
        return rg.from_numpy(np.cos(ctx.inner))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        outer = -np.sin(ctx.inner) * ctx.k
        grad_x = grad * rg.from_numpy(outer * np.cos(x.numpy()) * w.numpy())
        return grad_x, grad * rg.from_numpy(outer * np.sin(x.numpy())), None


class Told(Wave):
    """The same, whose result is known before it ran."""

    infer = staticmethod(lambda x, w, k: (x.shape, x.dtype))


def ran(seed: int, faults: Sequence[Any] = (), **options: Any) -> tuple[list[Any], list[int]]:
    """Return what a random program of three steps computes, and what values on workers held at most in each run;
    `faults` happen meanwhile."""
    chance, numbers = random.Random(seed), np.random.default_rng(seed)
    made: list[Any] = []
    peaks: list[int] = []
    with rg.Session(**options) as session, chaos.inject(session, *faults) if faults else nullcontext() as injected:
        ws = [rg.tensor(numbers.standard_normal(SIZE) * 0.1, requires_grad=True) for _ in range(2)]
        optimizer = rg.optim.Adam(ws) if chance.random() < 0.5 else None
        workers = options.get("workers", 1)
        for _ in range(3):
            for w in ws:
                w.grad = None
            y: Any = rg.tensor(numbers.standard_normal(SIZE))
            others: list[Any] = []
            for _ in range(chance.randint(4, 10)):
                what, w = chance.random(), chance.choice(ws)
                placed = workers > 1 and chance.random() < 0.5
                with rg.place(worker=chance.randrange(workers)) if placed else rg.enable_grad():
                    if what < 0.45:
                        y = chance.choice((Wave, Told)).apply(y, w, 1.0 + chance.randint(0, 4) / 10)
                    elif what < 0.8:
                        y = (y * w).sin() + y
                    else:
                        others.append(y)
                        made.append(y.sum().item())
            loss = y.sum()
            for other in others:
                loss = loss + (other * other).sum()
            twice = chance.random() < 0.3
            loss.backward(retain_graph=twice)
            if twice:
                loss.backward()
            if optimizer is not None:
                optimizer.step()
            made.append(loss.item())
            made += [None if w.grad is None else w.grad.numpy().tobytes() for w in ws]
            session._waiter.wait_for_everything()
            assert session.last_run is not None
            peaks += [peak for one in session.last_run.report().run.workers for _, _, peak in one.peaks]
        if injected is not None:
            assert len(injected.happened) == len(faults)
    return made, peaks


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_a_random_program_keeps_to_its_budget_with_the_same_bits(seed: int, workers: int) -> None:
    expected, _ = ran(seed, workers=workers)
    budget = random.Random(seed).randint(10, 18) * ARRAY
    made, peaks = ran(seed, workers=workers, memory=budget, strict=bool((seed + workers) % 2))
    assert made == expected
    assert 0 < max(peaks) <= budget


def least(seed: int, **options: Any) -> int:
    """Return the budget with which a random program is not refused, from what refusals name."""
    budget = ARRAY
    while True:
        try:
            ran(seed, memory=budget, **options)
            return budget
        except (PlanError, OverBudget) as error:
            named = [int(one) for one in re.findall(r"(?:needs|at least) memory=(\d+)", str(error))]
            assert max(named) > budget
            budget = max(named)


@pytest.mark.parametrize(("seed", "workers"), [(6, 2), (16, 2), (20, 1), (21, 1)])
def test_a_random_program_keeps_to_the_least_budget_that_does(seed: int, workers: int) -> None:
    budget = least(seed, workers=workers)
    for strict in (False, True):
        made, peaks = ran(seed, workers=workers, memory=budget, strict=strict)
        assert made == ran(seed, workers=workers)[0]
        assert 0 < max(peaks) <= budget


@pytest.mark.ray
@pytest.mark.parametrize("seed", [1, 20])
def test_a_random_program_keeps_to_its_budget_on_ray(ray_started: Any, seed: int) -> None:
    expected, _ = ran(seed, workers=2)
    made, peaks = ran(seed, address="ray", workers=2, memory=12 * ARRAY)
    assert made == expected
    assert 0 < max(peaks) <= 12 * ARRAY


@pytest.mark.ray
@pytest.mark.parametrize("seed", range(6))
def test_what_is_lost_with_a_worker_is_made_again_within_the_budget(ray_started: Any, seed: int) -> None:
    chance = random.Random(seed)
    faults = [
        chaos.Kill(worker, chaos.Point(chance.choice(("node", "call", "stored", "reply")), chance.randint(1, 3)))
        for worker in range(2)
    ]
    made, peaks = ran(seed, faults, address="ray", workers=2, memory=12 * ARRAY)
    assert made == ran(seed, workers=2)[0]
    assert 0 < max(peaks) <= 12 * ARRAY
