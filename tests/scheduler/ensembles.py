"""Ensembles as sessions record them: equal or unequal branches forward and backward, and what joins them.

`Ensemble.by_hand` has the segments that a person would write: each worker runs its contiguous share of the branches,
forward and backward, by one call; the joins are on worker 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from raygrad.proto.ir.graph import KEEP_ON_WORKER, Graph
from raygrad.proto.ir.nodes import FunctionCall, FunctionVjp
from raygrad.proto.ir.specs import ArraySpec, ContextSpec
from raygrad.scheduler.memory.execution_order import chain_segments
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.measured_costs import MeasuredCosts
from raygrad.scheduler.model.plan import Cluster, Plan
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges
from raygrad.scheduler.model.running_estimates import Estimate
from raygrad.scheduler.planning.planner import Planned
from raygrad.scheduler.segments.block_cuts import Block
from raygrad.scheduler.segments.lowering import lower
from raygrad.scheduler.segments.timetable import predict_seconds, segment_loads
from raygrad.scheduler.segments.transfers import plan_transfers

from .conftest import Builder

STYLES = ("stack", "list", "fold", "joint")
"""How losses are joined: `stack(losses).sum()`, `sum(outputs).sum()`, `loss += f(x)`, `(sum(outputs) ** 2).sum()`.
Of the last, each backward depends on all forwards."""


@dataclass(slots=True)
class Ensemble:
    """A recorded ensemble; see `ensemble`."""

    graph: Graph
    costs: Costs
    branches: list[list[int]] = field(default_factory=list[list[int]])
    """Per branch, the nodes of its Functions, forward and backward."""
    forward: list[list[int]] = field(default_factory=list[list[int]])
    """Per branch, its forwards alone."""

    @property
    def priced(self) -> PricedGraph:
        return PricedGraph(self.graph, self.costs)

    def work(self, branch: int) -> float:
        """Return the seconds of a branch's Functions."""
        seconds = self.priced.seconds
        return sum(seconds[node] for node in self.branches[branch])

    def by_hand(self, cluster: Cluster, shares: Sequence[Sequence[int]]) -> Planned:
        """Return the plan in which worker i runs the branches `shares[i]`, and worker 0 what joins them."""
        home = [0] * len(self.graph.nodes)
        for worker, share in enumerate(shares):
            for branch in share:
                for node in self.branches[branch]:
                    home[node] = worker
        priced = self.priced
        heavy = {node for branch in self.branches for node in branch}
        links = node_edges(priced)
        stage = [0] * len(home)  # light nodes first, then Functions, then light nodes that read from these
        for node, before in enumerate(links.before):
            near = [stage[one] + ((one in heavy) != (node in heavy)) for one in before]
            stage[node] = max(near, default=int(node in heavy))
        stages = range(max(stage) + 1)
        blocks = [
            Block(worker, nodes)
            for one in stages
            for worker in range(len(shares))
            if (nodes := [node for node in range(len(home)) if stage[node] == one and home[node] == worker])
        ]
        transfers = plan_transfers(priced, blocks, (-1,) * len(self.graph.externals))
        segments = chain_segments(transfers.segments, cluster)
        residency = (-1,) * len(self.graph.externals)
        plan = Plan(
            hash=b"by hand".ljust(16),
            workers=tuple(worker.name for worker in cluster.workers),
            segments=segments,
            node_worker=tuple(home),
            kept=transfers.kept,
            open_ended=False,
            crossing_bytes=transfers.crossing_bytes,
            predicted_seconds=predict_seconds(
                segments, segment_loads(segments, priced), residency, self.costs, cluster
            ),
        )
        return Planned(plan, lower(self.graph, plan), self.graph)


def ensemble(
    seconds: Sequence[tuple[float, float]],
    style: str = "stack",
    *,
    kept: int = 8_000_000,
    out: int = 100_000,
    chained: int = 1,
    extra: float = 0.0,
    costs: Costs | None = None,
) -> Ensemble:
    """Return one branch per entry of `seconds`, which has those of its forward and of its backward.

    Each branch applies `chained` Functions in turn, which keep `kept` bytes for backward and make `out` bytes; all read
    the parameter. `extra` are the seconds of one more Function of the parameter, whose output the client keeps.
    """
    build = Builder(externals=1 + len(seconds), size=max(out // 8, 1))
    context = build.spec(ContextSpec(kept))
    scalar = build.spec(ArraySpec((), "float64"))
    prices: dict[str, tuple[float, float]] = {}
    branches: list[list[int]] = [[] for _ in seconds]
    tapes: list[list[int]] = [[] for _ in seconds]
    ends: list[int] = []

    def call(fn: str, *inputs: int) -> tuple[int, int]:
        made = build.function(fn, *inputs)
        node = build.nodes[-1]
        build.nodes[-1] = node._replace(outputs=(context, *node.outputs[1:]))
        return made[0], made[1]

    if extra:
        build.keep.append((call("extra", 0)[1], KEEP_ON_WORKER))
        prices["extra"] = extra, extra
    names = {pair: f"f{index}" for index, pair in enumerate(dict.fromkeys(seconds))}
    for branch, pair in enumerate(seconds):
        prices[names[pair]] = pair[0] / chained, pair[1] / chained
        value = 1 + branch
        for _ in range(chained):
            branches[branch].append(len(build.nodes))
            saved, value = call(names[pair], 0, value)
            tapes[branch].append(saved)
        ends.append(value)
    forward = [list(nodes) for nodes in branches]
    cotangents = _joined(build, ends, style, scalar)
    gradients: list[int] = []
    for branch in reversed(range(len(seconds))):
        gradient = cotangents[branch]
        for saved in reversed(tapes[branch]):
            branches[branch].append(len(build.nodes))
            gradient = build.function_vjp(names[seconds[branch]], saved, gradient, -1)
        gradients.append(gradient)
    while len(gradients) > 1:  # a balanced tree (H19)
        rest = gradients[len(gradients) // 2 * 2 :]
        gradients = [build.sum(a, b) for a, b in zip(gradients[::2], gradients[1::2], strict=False)] + rest
    build.keep.append((gradients[0], KEEP_ON_WORKER))
    graph = build.graph()
    return Ensemble(graph, _priced(graph, prices, Costs() if costs is None else costs), branches, forward)


def _joined(build: Builder, ends: list[int], style: str, scalar: int) -> list[int]:
    """Join what branches made to a loss that is kept; return the cotangent of each."""
    if style in ("stack", "fold"):
        losses = [build.op("sum", end, spec=scalar) for end in ends]
        if style == "stack":
            loss = build.op("sum", build.op("stack", *losses), spec=scalar)
        else:
            loss = losses[0]
            for one in losses[1:]:
                loss = build.op("add", loss, one, spec=scalar)
        build.keep.append((loss, KEEP_ON_WORKER))
        one = build.op("full", spec=scalar)
        return _handed_down(build, one, len(ends), style, scalar)
    total = ends[0]
    for end in ends[1:]:
        total = build.op("add", total, end)
    loss = build.op("sum", build.op("pow", total) if style == "joint" else total, spec=scalar)
    build.keep.append((loss, KEEP_ON_WORKER))
    cotangent = build.op("expand", build.op("full", spec=scalar))
    if style == "joint":
        cotangent = build.op_vjp("pow", [total], cotangent)
    return _handed_down(build, cotangent, len(ends), "fold", None)


def _handed_down(build: Builder, cotangent: int, count: int, style: str, scalar: int | None) -> list[int]:
    """Return a cotangent per branch, made from that of their sum by nodes as a session records them."""
    found: list[int] = []
    for _ in range(count):
        spec = {} if scalar is None else {"spec": scalar}
        part = build.op("add", cotangent, **spec)
        found.append(part if scalar is None else build.op("expand", part))
        if style == "fold":
            cotangent = build.op("add", cotangent, **spec)
    return found[::-1] if style == "fold" else found


def _priced(graph: Graph, prices: dict[str, tuple[float, float]], costs: Costs) -> Costs:
    """Return the costs under which each Function takes its seconds (forward, backward)."""
    measured = MeasuredCosts(costs)
    for node, read, made in PricedGraph(graph, costs).classes.classes:
        if isinstance(node, (FunctionCall, FunctionVjp)):
            wanted = prices[node.fn.removeprefix("@")][isinstance(node, FunctionVjp)]
            factor = wanted / costs.prior_seconds(node, read, made)
            kind = costs.kind_of(node, read, made)
            measured.kinds[kind] = Estimate(factor, 0.0, wanted, 3)
            measured._functions.surplus(kind)
    measured.links_were()
    return measured.costs()
