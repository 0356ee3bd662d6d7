"""Sleeping ensembles of `ensemble.py`: Functions that take a second forward and a second backward, and no core.

What they take beyond the sleep is planning and waiting at the wrong place. All cases run at the same time, each in a
process and session of its own, started a fraction of a second apart so that their short work does not meet.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
from measure import elsewhere

import raygrad as rg

SLEEP: Final = 1.0
START: Final = np.linspace(0.1, 0.9, 4)
PATIENCE: Final = 600.0
"""Seconds in which a case has to be done."""
APART: Final = 0.13
"""Seconds between the starts of two cases: no divisor of the sleep."""


@dataclass(frozen=True, slots=True)
class Sleepers:
    """One case: what sleeps where, and what it may take."""

    name: str
    branches: int
    workers: int
    arguments: str
    """"constant", or new "floats" or "ints" in every call."""
    address: str
    """That of the Ray, or "local"."""
    steps: int
    most: float
    """What a step may take, from the second on."""
    first: float | None = None
    """What the first step may take, where that is said."""


@dataclass(frozen=True, slots=True)
class Slept:
    """What the steps of a case took."""

    case: Sleepers
    seconds: tuple[float, ...]


class Nap(rg.autograd.Function):
    """The input, after a second, and so its gradient."""

    @staticmethod
    def forward(ctx, x, number):
        time.sleep(SLEEP)
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        time.sleep(SLEEP)
        return grad * 1.0, None


def numbers(case: Sleepers) -> Iterator[float]:
    """Return the arguments, call after call."""
    if case.arguments == "floats":
        return (0.5 + 0.001 * count for count in itertools.count())
    if case.arguments == "ints":
        return itertools.count()
    return itertools.cycle(float(index) for index in range(case.branches))


def step(case: Sleepers, arguments: Iterator[float]) -> float:
    """Take a step; return its seconds."""
    start = time.perf_counter()
    x = rg.tensor(START, requires_grad=True)
    losses = [Nap.apply(x, next(arguments)).sum() for _ in range(case.branches)]
    loss = rg.stack(losses).sum()
    loss.backward()
    got, grad = loss.item(), x.grad.numpy()
    seconds = time.perf_counter() - start
    if not np.isclose(got, case.branches * START.sum()) or not np.array_equal(grad, np.full(4, float(case.branches))):
        raise RuntimeError(f"{case.name}: wrong values, loss {got}, gradient {grad}")
    return seconds


def _serve(pipe: Connection, case: Sleepers) -> None:
    """Run one case in this process: open the session, wait for the start, take the steps."""
    options: dict[str, Any] = {} if case.address == "local" else {"worker_options": {"num_cpus": 0}}
    try:
        with elsewhere(), rg.Session(case.address, workers=case.workers, **options):
            pipe.send(None)
            time.sleep(pipe.recv())
            arguments = numbers(case)
            pipe.send([step(case, arguments) for _ in range(case.steps)])
    except (EOFError, BrokenPipeError):
        return
    except BaseException as error:
        pipe.send(RuntimeError(f"{case.name}: {type(error).__name__}: {error}"))
        raise


def slept(cases: list[Sleepers]) -> list[Slept]:
    """Run the cases at the same time; return what their steps took."""
    context = multiprocessing.get_context("spawn")
    started: list[tuple[Any, Connection]] = []

    def answer(pipe: Connection, case: Sleepers) -> Any:
        if not pipe.poll(PATIENCE):
            raise TimeoutError(f"{case.name}: not done after {PATIENCE:.0f} s")
        got = pipe.recv()
        if isinstance(got, BaseException):
            raise got
        return got

    try:
        for case in cases:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, case), name=case.name)
            process.start()
            theirs.close()
            started.append((process, ours))
        for (_, pipe), case in zip(started, cases, strict=True):
            answer(pipe, case)
        for number, (_, pipe) in enumerate(started):
            pipe.send(number * APART)
        return [Slept(case, tuple(answer(pipe, case))) for (_, pipe), case in zip(started, cases, strict=True)]
    finally:
        for process, pipe in started:
            pipe.close()
            process.join(30)
            if process.is_alive():
                process.kill()
                process.join()


def cases(address: str, *, quick: bool) -> list[Sleepers]:
    """Return the cases that are measured."""
    starts, steps, longer = (1, 3, 2) if quick else (3, 21, 11)
    two = "4 of 1 s + 1 s on two Ray workers"
    found = [
        Sleepers(f"{two}, start {start + 1}", 4, 2, "constant", address, steps, 4.2, 5.3) for start in range(starts)
    ]
    found += [Sleepers(f"{two}, new {kind}", 4, 2, kind, address, steps, 4.2) for kind in ("floats", "ints")]
    found.append(Sleepers("16 of 1 s + 1 s on four Ray workers", 16, 4, "constant", address, longer, 8.4))
    found.append(Sleepers("4 of 1 s + 1 s in process, two workers", 4, 2, "constant", "local", steps, 4.2))
    return found
