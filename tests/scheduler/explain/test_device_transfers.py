"""What a plan moves between devices is listed: by the nodes that move it, and where it crosses between processes."""

from __future__ import annotations

from typing import Any

from raygrad.proto.ir.nodes import Load, Spill
from raygrad.proto.ir.specs import STAYS, ArraySpec, ContextSpec
from raygrad.scheduler.explain.device_transfers import DeviceTransfer, FetchedArray, device_transfers, fetched_arrays
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.planning.planner import make_plan

from ...graph_nodes import NOTHING_SHOWN, function_node, plain_node

ONE, OTHER = (ArraySpec((4,), "float64", f"cuda:{index}") for index in range(2))
CARDS = Cluster((WorkerSpec("host"), WorkerSpec("one", ("cpu", "cuda:0")), WorkerSpec("other", ("cpu", "cuda:1"))))


def listed(graph: Any, staged: bool = False) -> tuple[DeviceTransfer, ...]:
    residency = (-1,) * len(graph.externals)
    plan = make_plan(graph, residency, Costs(), CARDS, 0, b"key").plan
    priced = PricedGraph(graph, Costs()).with_sizes([32] * graph.values)
    return device_transfers(priced, residency, plan, staged=staged)


def test_a_graph_of_the_host_moves_nothing(builder: Any) -> None:
    build = builder()
    build.op("sin", 0)
    assert listed(build.graph()) == ()


def test_each_move_is_listed_where_it_runs(builder: Any) -> None:
    build = builder()
    one, other = build.spec(ONE), build.spec(OTHER)
    there = build.op("sin", build.op("to_device", 0, spec=one), spec=one)
    build.op("to_device", build.op("to_device", there, spec=other))
    assert listed(build.graph()) == (
        DeviceTransfer(0, 1, "cpu", "cuda:0", 32),
        DeviceTransfer(2, 2, "cuda:0", "cuda:1", 32),
        DeviceTransfer(3, 2, "cuda:1", "cpu", 32),
    )


def test_what_crosses_between_processes_goes_through_host_memory(builder: Any) -> None:
    build = builder()
    one, other = build.spec(ONE), build.spec(OTHER)
    build.op("to_device", build.op("to_device", 0, spec=one), spec=other)
    assert DeviceTransfer(-1, 2, "cuda:0", "cuda:0", 32) in listed(build.graph(), staged=True)
    assert len(listed(build.graph())) == 2


def test_what_a_context_holds_on_devices_moves_with_it_to_disk_and_back(builder: Any) -> None:
    build = builder()
    one, context = build.spec(ONE), build.spec(ContextSpec(100, STAYS, (("cuda:0", 60),)))
    there = build.op("to_device", 0, spec=one)
    forward = function_node("@f", (there,), (context, one), (1,), expected=NOTHING_SHOWN)
    saved, _ = build.add(forward)
    (handle,) = build.add(plain_node(Spill, (saved,), (0,)))
    build.add(plain_node(Load, (handle,), (context,)))
    moved = [(each.source, each.target, each.bytes) for each in listed(build.graph()) if each.node > 1]
    assert moved == [("cuda:0", "cpu", 60), ("cpu", "cuda:0", 60)]


def test_what_was_read_is_named_by_the_node_that_made_it(builder: Any) -> None:
    build = builder()
    one = build.spec(ONE)
    there = build.op("to_device", 0, spec=one)
    made = build.op("sin", there, spec=one)
    graph = build.graph()
    assert fetched_arrays(graph, []) == ()
    assert fetched_arrays(graph, [(made, 1, [("cuda:0", 32), ("cuda:1", 8)]), (99, 2, [("cuda:0", 4)])]) == (
        FetchedArray(1, 1, "cuda:0", 32),
        FetchedArray(1, 1, "cuda:1", 8),
        FetchedArray(-1, 2, "cuda:0", 4),
    )
