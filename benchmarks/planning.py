"""What planning costs, and how fast the smallest thing comes back."""

from __future__ import annotations

import statistics
import time
from typing import Any

import chain
from measure import Result, Subject, compare, per_unit

import raygrad as rg
from raygrad.scheduler.planning import planner


def recorded(length: int) -> tuple[Any, ...]:
    """Return what `make_plan` is given for the chain of `chain.py`, forward and backward."""
    seen: list[tuple[Any, ...]] = []
    real = planner.make_plan

    def noted(*arguments: Any) -> Any:
        seen.append(arguments)
        return real(*arguments)

    planner.make_plan = noted
    try:
        with rg.Session(workers=2):
            for _ in range(2):  # the first time the Function is resolved, in a graph of its own
                chain.there_and_back(chain.chain(chain.custom, length))
    finally:
        planner.make_plan = real
    return max(seen, key=lambda arguments: len(arguments[0].nodes))


def tiny() -> None:
    """Forward and backward of two operations, and the gradient read."""
    x = rg.tensor(chain.START, requires_grad=True)
    x.sin().sum().backward()
    assert x.grad is not None
    x.grad.numpy()


def tiny_custom() -> None:
    """The same with a user's Function."""
    x = rg.tensor(chain.START, requires_grad=True)
    chain.Sin.apply(x).sum().backward()
    assert x.grad is not None
    x.grad.numpy()


def results(quick: bool) -> list[Result]:
    """Measure everything of this file."""
    length, rounds = (2_000, 3) if quick else (10_000, 5)
    graph = recorded(length)
    nodes = len(graph[0].nodes)
    plan = Subject("raygrad", per_unit(lambda: planner.make_plan(*graph), nodes), aim="<= 10 µs (at 10^6 nodes, later)")
    found = compare(f"planning {nodes:,} nodes, half pinned on each of two workers | node", [plan], rounds, warmup=1)
    with rg.Session(workers=1):
        repeats = 200
        subjects = [
            Subject("built-in operations", lambda: middle(tiny, repeats)),
            Subject("a custom Function", lambda: middle(tiny_custom, repeats)),
        ]
        work = "smallest forward + backward in process, gradient read | pass"
        found += compare(work, subjects, rounds)
    return found


def middle(work: Any, repeats: int) -> float:
    """Return the median time of one call: a latency, not a throughput."""
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
