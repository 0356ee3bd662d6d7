"""Any placement, any number of workers, any segmentation: the same gradients, bit for bit (H1, H12, H19, DR-07)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import raygrad as rg
from raygrad.scheduler.machine import revision
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges
from raygrad.scheduler.placing.constraints import Constraints, find_constraints
from raygrad.scheduler.placing.place import Placement
from raygrad.scheduler.planning import memory_placement, rest_planner
from raygrad.scheduler.segments.segmenter import segment_graph

SIDE = 4


class Mixed(rg.autograd.Function):
    """A NumPy Function whose last bits depend on the layout of what it is given."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return rg.from_numpy(np.sin(x.numpy()) @ y.numpy())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, y = (saved.numpy() for saved in ctx.saved_tensors)
        grad = grads[0].numpy()
        return rg.from_numpy((grad @ y.T) * np.cos(x)), rg.from_numpy(np.sin(x).T @ grad)


def halves(x: Any, _: Any) -> Any:
    return rg.cat([x[::2], x[1::2] * 3.0])


STEPS: dict[str, Any] = {
    "matmul": lambda x, y: (x @ y) * 0.3,
    "transposed": lambda x, y: x.T @ y * 0.2,
    "sum of a transpose": lambda x, y: x.T.sum(1).expand(SIDE, SIDE) * y,
    "sum of a slice": lambda x, y: (x @ y)[::2].sum(0).expand(SIDE, SIDE) + x,
    "row expanded": lambda x, y: x[1].expand(SIDE, SIDE).sum(0).unsqueeze(1) + y,
    "halves": halves,
    "every other column": lambda x, y: (x[:, ::2] @ y[1::2]) * 0.4 + x.T,
    "column expanded": lambda x, y: (x[:, 2:3].expand(SIDE, SIDE) * y.T).sum(0, keepdim=True) * 0.1 + x,
    "permuted": lambda x, y: (x.unsqueeze(0) * y.unsqueeze(1)).permute(2, 0, 1).sum(1) * 0.1,
    "function": lambda x, y: Mixed.apply(x, y) * 0.5,
    "function of a transpose": lambda x, y: Mixed.apply(x.T, y[:, ::1]) * 0.5,
    "softmax": lambda x, y: rg.nn.functional.softmax(x, 1) + y.mean(0),
    "norm": lambda x, y: x / (1.0 + (y * y).sum(1, keepdim=True).sqrt()),
}

a_step = st.tuples(st.sampled_from(list(STEPS)), st.integers(0, 7), st.integers(0, 7), st.integers(0, 7))
"""A step, which of the values so far are its operands, and the worker that it is pinned to (beyond the last: none)."""


def gradients(steps: list[tuple[str, int, int, int]], workers: int) -> list[bytes]:
    """Return the bytes of the result and of the leaves' gradients; with no workers eagerly."""
    random = np.random.default_rng(0)
    leaves = [rg.tensor(random.normal(size=(SIDE, SIDE)), requires_grad=True) for _ in range(3)]
    values: list[Any] = list(leaves)
    for name, first, second, worker in steps:
        one, other = values[-1 - first % len(values)], values[-1 - second % len(values)]
        if worker < workers:
            with rg.place(worker=worker):
                values.append(STEPS[name](one, other))
        else:
            values.append(STEPS[name](one, other))
    total: Any = sum([value.sum() for value in values[3:]])
    total.backward()
    grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
    return [total.detach().numpy().tobytes(), *[grad.numpy().tobytes() for grad in grads]]


@settings(max_examples=200)
@given(
    steps=st.lists(a_step, min_size=1, max_size=9),
    workers=st.integers(1, 8),
    call=st.sampled_from([0.0, 1e-6, 1e-3]),
    hop=st.sampled_from([0.0, 1e-6, 1e-3]),
)
def test_any_placement_and_segmentation_give_the_same_bits(
    steps: list[tuple[str, int, int, int]], workers: int, call: float, hop: float
) -> None:
    expected = gradients(steps, 0)
    with rg.Session(workers=workers, strict=True) as session:
        cast("Any", session._driver).planner.use_costs(Costs(epoch=1, call_seconds=call, hop_seconds=hop))
        got = gradients(steps, workers)
        run = session.last_run
        assert run is not None
        assert got == expected, f"in {len(run.plan.segments)} segments on {workers} workers"


def placed_by_chance(
    priced: PricedGraph,
    residency: Sequence[int],
    costs: Costs,
    cluster: Cluster,
    seed: int = 0,
    constraints: Constraints | None = None,
) -> Placement:
    """Any placement that a plan may have, good or bad: backward, sums of gradients and what follows them, too."""
    draws = np.random.default_rng(seed)
    constraints = constraints or find_constraints(priced, residency, cluster)
    chosen: dict[int, int] = {}
    for root in constraints.group:
        if root not in chosen:
            some = constraints.allowed.get(root, frozenset(range(len(cluster.workers))))
            chosen[root] = constraints.forced.get(root, int(draws.choice(sorted(some))))
    node_worker = tuple(chosen[root] for root in constraints.group)
    made = segment_graph(priced, node_edges(priced), node_worker, residency, costs)
    return Placement(node_worker, made.blocks, made.seconds)


@settings(max_examples=100)
@given(
    steps=st.lists(a_step, min_size=1, max_size=7),
    workers=st.integers(2, 8),
    seed=st.integers(0, 2**32 - 1),
    call=st.sampled_from([0.0, 1e-3]),
    hop=st.sampled_from([0.0, 1e-3]),
)
def test_nodes_that_are_scattered_by_chance_give_the_same_bits(
    steps: list[tuple[str, int, int, int]], workers: int, seed: int, call: float, hop: float
) -> None:
    expected = gradients(steps, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_placement, "place", placed_by_chance)
        with rg.Session(workers=workers, strict=True, seed=seed) as session:
            cast("Any", session._driver).planner.use_costs(Costs(epoch=1, call_seconds=call, hop_seconds=hop))
            got = gradients(steps, workers)
            run = session.last_run
            assert run is not None
            assert got == expected, f"{run.plan.node_worker} on {workers} workers"


@settings(max_examples=60)
@given(steps=st.lists(a_step, min_size=2, max_size=9), workers=st.integers(2, 5), seed=st.integers(0, 2**32 - 1))
def test_plans_that_are_revised_again_and_again_give_the_same_bits(
    steps: list[tuple[str, int, int, int]], workers: int, seed: int
) -> None:
    """Whenever a worker has run dry, whatever has not begun is planned again, whether that gains anything or not."""
    expected = gradients(steps, 0)
    schedule = rest_planner.Rest.schedule
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_placement, "place", placed_by_chance)
        patch.setattr(revision, "MIN_SECONDS", 1e-9)
        patch.setattr(revision, "MIN_SHARE", 0.0)
        patch.setattr(rest_planner, "MIN_TASK_SECONDS", 1e-7)
        patch.setattr(rest_planner.Rest, "schedule", lambda rest: schedule(rest)._replace(gain=1e9))
        with rg.Session(workers=workers, strict=True, seed=seed) as session:
            cast("Any", session._driver).planner.use_costs(Costs(epoch=1, call_seconds=0.0, hop_seconds=0.0))
            got = gradients(steps, workers)
            run = session.last_run
            assert run is not None
            assert got == expected, f"{run.plan.node_worker} on {workers} workers, {len(run.revisions)} revisions"
