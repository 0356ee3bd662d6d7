"""Planning of large graphs: time, memory, and what the plans are worth, each in a process of its own.

python benchmarks/planning_scale.py layered 1000000 1000        one graph, as JSON
"""

# ruff: noqa: E402 - BLAS reads the number of its threads when NumPy is imported

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import gc
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from measure import Result

from raygrad.proto.ir.graph import KEEP_ON_WORKER, Graph
from raygrad.proto.ir.nodes import UNDEFINED, FunctionCall, FunctionVjp, Node, OpCall, OpVjp
from raygrad.proto.ir.specs import ArraySpec, ContextSpec
from raygrad.scheduler.model.arrays import graph_arrays
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.critical_path import lower_bound
from raygrad.scheduler.model.dag import Platform
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.planning.planner import Planner

SPECS = (ContextSpec(), ArraySpec((64, 64), "float64"))
CONTEXT, ARRAY = 0, 1


class Recorder:
    """Makes graphs of nodes without parameters that matter to the planner."""

    def __init__(self, externals: int) -> None:
        self.externals = externals
        self.values = externals
        self.nodes: list[Node] = []

    def op(self, fn: str, *inputs: int) -> int:
        return self._add(OpCall(inputs, (ARRAY,), -1, UNDEFINED, fn=fn, params=()))

    def vjp(self, fn: str, residual: int, cotangent: int) -> int:
        common = ((residual, cotangent), (ARRAY,), -1, UNDEFINED)
        return self._add(OpVjp(*common, fn=fn, params=(), wanted=(1,), operand_specs=(ARRAY,), result_specs=(ARRAY,)))

    def function(self, fn: str, *inputs: int) -> tuple[int, int]:
        """Return the context and the output."""
        output = self._add(
            FunctionCall(
                inputs,
                (CONTEXT, ARRAY),
                -1,
                UNDEFINED,
                fn="@" + fn,
                requires_grad=(1,) * len(inputs),
                recorded=True,
                pure=False,
                impure=False,
                silent=False,
                expected=None,
                keywords=(),
                shared=(),
                leaves=None,
                settings=(),
            )
        )
        return output - 1, output

    def function_vjp(self, fn: str, context: int, cotangent: int) -> int:
        return self._add(
            FunctionVjp(
                (context, cotangent, UNDEFINED, UNDEFINED),
                (ARRAY,),
                -1,
                context,
                fn="@" + fn,
                depth=1,
                items=3,
                arguments=1,
                results=1,
                wanted=(0,),
                requires_grad=(),
                differentiated=False,
                refusal="",
                expected=None,
                retained=False,
                spared=False,
                attributes=(),
                reports_effects=False,
                leaves=None,
                settings=(),
            )
        )

    def _add(self, node: Node) -> int:
        """Add a node; return the last of its values."""
        self.nodes.append(node)
        self.values += len(node.outputs)
        return self.values - 1

    def graph(self, *kept: int) -> Graph:
        keep = tuple((value, KEEP_ON_WORKER) for value in kept)
        return Graph(SPECS, (ARRAY,) * self.externals, tuple(self.nodes), keep)


def layered(nodes: int) -> Graph:
    """Layers of Functions, each reading two outputs of the layer before at random: what has no good division."""
    width, chance = max(nodes // 100, 1), random.Random(0)
    made = Recorder(width)
    before = list(range(width))
    for _ in range(nodes // width):
        before = [
            made.function("f", before[int(chance.random() * width)], before[int(chance.random() * width)])[1]
            for _ in range(width)
        ]
    return made.graph(*before[:10])


def ensemble(nodes: int) -> Graph:
    """A thousand members, each a chain of products forward and backward, and the mean of their gradients."""
    members = 1000
    made = Recorder(members)
    ends: list[int] = []
    for member in range(members):
        path = [member]
        for _ in range(nodes // members // 2 - 1):
            path.append(made.op("matmul", path[-1], path[-1]))
        end = path[-1]
        for value in reversed(path):
            end = made.vjp("matmul", value, end)
        ends.append(end)
    return made.graph(_reduced(made, ends))


def transformer(nodes: int) -> Graph:
    """Layers of attention and perceptrons by Functions, forward and backward, for many microbatches that share
    parameters; gradients of each layer are summed over them."""
    layers = 24
    microbatches = max(nodes // (layers * 2 * 9), 1)
    made = Recorder(layers + microbatches)
    gradients: list[list[int]] = [[] for _ in range(layers)]
    for microbatch in range(microbatches):
        value = layers + microbatch
        tape: list[list[int]] = []
        for layer in range(layers):
            contexts: list[int] = []

            def apply(fn: str, *inputs: int, into: list[int] = contexts) -> int:
                context, output = made.function(fn, *inputs)
                into.append(context)
                return output

            query, key, what = (apply(fn, value, layer) for fn in ("query", "key", "value"))
            mixed = apply("attend", apply("weigh", query, key), what)
            value = made.op("add", value, apply("project", mixed, layer))
            value = made.op("add", value, apply("feed", value, layer))
            tape.append(contexts)
        back = value
        for layer in range(layers - 1, -1, -1):
            query, key, what, weigh, attend, project, feed = tape[layer]
            back = made.op("add", back, made.function_vjp("feed", feed, back))
            mixed = made.function_vjp("attend", attend, made.function_vjp("project", project, back))
            scores = made.function_vjp("weigh", weigh, mixed)
            for fn, context, of in (("query", query, scores), ("key", key, scores), ("value", what, mixed)):
                back = made.op("add", back, made.function_vjp(fn, context, of))
            gradients[layer].append(back)
    return made.graph(*[_reduced(made, some) for some in gradients])


def _reduced(made: Recorder, values: list[int]) -> int:
    """Return the sum of values, by a tree."""
    while len(values) > 1:
        rest = values[len(values) // 2 * 2 :]
        values = [made.op("add", one, other) for one, other in zip(values[::2], values[1::2], strict=False)] + rest
    return values[0]


FAMILIES: dict[str, Callable[[int], Graph]] = {"layered": layered, "ensemble": ensemble, "transformer": transformer}


def measured(family: str, nodes: int, workers: int) -> dict[str, Any]:
    """Plan one graph; then for one worker less, and for one in its place, twice."""
    graph = FAMILIES[family](nodes)
    residency = (-1,) * len(graph.externals)
    base = _peak()
    cluster = Cluster.of(workers)
    planner = Planner(cluster)
    gc.disable()  # as a session does while it submits
    start = time.process_time()
    planned = planner.plan(graph, residency, b"graph")
    seconds, peak = time.process_time() - start, _peak()
    start = time.process_time()
    lowered = sum(len(program.steps) for program in planned.programs)
    lowering = time.process_time() - start
    assert lowered == len(graph.nodes)
    changed: dict[str, tuple[float, float]] = {}
    some = cluster.workers
    less = Cluster(some[:300] + some[301:])
    for name, other in (
        ("last lost", Cluster(some[:-1])),
        ("joined", cluster),
        ("one lost", less),
        ("joined", cluster),
    ):
        planner.use_cluster(other)
        start = time.process_time()
        again = planner.plan(graph, residency, b"graph").plan.predicted_seconds
        changed[name] = time.process_time() - start, again
    fresh = Planner(less).plan(graph, residency, b"graph").plan.predicted_seconds
    dag = graph_arrays(PricedGraph(graph, Costs())).dag()
    bound = lower_bound(dag, Platform.of(workers))
    return {
        "nodes": len(graph.nodes),
        "segments": len(planned.plan.segments),
        "seconds": seconds,
        "lost": changed["one lost"][0],
        "last_lost": changed["last lost"][0],
        "added": changed["joined"][0],
        "lowering": lowering,
        "graph_mb": base,
        "peak_mb": peak,
        "over_bound": planned.plan.predicted_seconds / bound,
        "lost_over_bound": changed["one lost"][1] / bound,
        "fresh_over_bound": fresh / bound,
        "added_over_bound": changed["joined"][1] / bound,
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def results(quick: bool) -> list[Result]:
    """Measure everything of this file."""
    nodes, workers = (100_000, 1_000) if quick else (1_000_000, 1_000)
    found: list[Result] = []
    for family in FAMILIES:
        done = subprocess.run(
            [sys.executable, __file__, family, str(nodes), str(workers)], check=True, capture_output=True, text=True
        )
        figures = json.loads(done.stdout)
        over = [figures[name] for name in ("over_bound", "lost_over_bound", "fresh_over_bound", "added_over_bound")]
        work = (
            f"planning {family}, {figures['nodes']:,} nodes, {workers:,} workers, one core: {figures['peak_mb']:,} MB "
            f"({figures['graph_mb']:,} the graph), {figures['segments']:,} segments, {over[0]:.2f} x the bound "
            f"({over[1]:.2f} with one worker less, {over[2]:.2f} if planned afresh; {over[3]:.2f} with one more) | plan"
        )
        for subject, seconds, anchor, aim in (
            ("plan", figures["seconds"], "", "<= 10 s and <= 4 GiB at 10^6 nodes"),
            ("plan, per node", figures["seconds"] / figures["nodes"], "", ""),
            ("one worker less", figures["lost"], "plan", "<= 0.1 of the plan"),
            ("one worker less, the last", figures["last_lost"], "plan", "<= 0.1 of the plan"),
            ("one worker more", figures["added"], "plan", "<= 0.1 of the plan"),
            ("all programs, made as they are sent", figures["lowering"], "", ""),
        ):
            found.append(Result(work, subject, seconds, seconds, seconds, 1, anchor, aim))
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))) + "\n")
