"""Which memories are limited, and what takes room in which."""

from __future__ import annotations

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.specs import ArraySpec, ContextSpec
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.memory_spaces import MemorySpace, limited_spaces
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.model.unseen_function_bytes import estimated_bytes

from ...graph_nodes import function_node, function_vjp_node, op_node

SPECS = (
    ArraySpec((10,), "float64"),
    ArraySpec((20,), "float64", "cuda:0"),
    ArraySpec((30,), "float64", "cuda:1"),
    ContextSpec(40, 0),
)


def cluster(*limits: tuple[int | None, int | None]) -> Cluster:
    """Return workers with (memory, GPU memory), worker i with GPU i."""
    return Cluster(
        tuple(
            WorkerSpec(f"worker {number}", ("cpu", f"cuda:{number}"), memory=host, gpu_memory=gpu)
            for number, (host, gpu) in enumerate(limits)
        )
    )


def test_a_memory_is_limited_where_a_worker_that_has_it_is() -> None:
    assert limited_spaces(SPECS, cluster((None, None), (None, None))) == []
    assert limited_spaces(SPECS, cluster((7, None), (None, None))) == [MemorySpace("cpu", [7, None])]
    assert limited_spaces(SPECS, cluster((7, 1), (None, 2))) == [
        MemorySpace("cuda:0", [1, None]),
        MemorySpace("cuda:1", [None, 2]),
        MemorySpace("cpu", [7, None]),
    ]
    assert limited_spaces(SPECS[:1], cluster((None, 1), (None, 2))) == [], "nothing is there"


def test_a_value_takes_room_where_it_is_and_nowhere_else() -> None:
    nodes = (op_node("o", (0, 1), (2, 3)),)
    priced = PricedGraph(Graph(SPECS, (0, 1), nodes, ()), Costs(context_bytes=1))
    sizes = {device: MemorySpace(device, []).within(priced).size for device in ("cpu", "cuda:0", "cuda:1")}
    assert sizes == {"cpu": [80, 0, 0, 41], "cuda:0": [0, 160, 0, 0], "cuda:1": [0, 0, 240, 0]}


def test_a_context_takes_room_in_each_memory_in_which_it_holds_something() -> None:
    specs = (ContextSpec(100, 1, (("cuda:0", 60), ("cuda:1", 30))),)
    priced = PricedGraph(Graph(specs, (0,), (), ()), Costs(context_bytes=1))
    assert {
        device: MemorySpace(device, []).within(priced).size for device in ("cpu", "cuda:0", "cuda:1", "cuda:2")
    } == {
        "cpu": [11],
        "cuda:0": [60],
        "cuda:1": [30],
        "cuda:2": [0],
    }
    assert limited_spaces(specs, cluster((None, 5))) == [MemorySpace("cuda:0", [5])]


def test_of_a_graph_of_one_memory_nothing_is_copied() -> None:
    priced = PricedGraph(Graph(SPECS[:1], (0,), (), ()), Costs())
    assert MemorySpace("cpu", []).within(priced) is priced


def test_an_amount_is_named_as_it_is_given() -> None:
    assert MemorySpace("cpu", []).named(5) == "memory=5"
    assert MemorySpace("cuda:1", []).named(5) == "gpu_memory=5"


def test_what_an_open_ended_node_will_make_is_estimated_by_what_it_reads() -> None:
    node = function_node("@new", (0, 0, 1), (3,), (1, 1, 1))
    graph = Graph(SPECS, (0, 1), (node,), (), open_ended=True)
    priced = PricedGraph(graph, Costs(context_bytes=1))
    assert MemorySpace("cpu", []).within(priced).size == [80, 0, 41 + estimated_bytes(80)]
    assert MemorySpace("cuda:0", []).within(priced).size == [0, 160, estimated_bytes(160)]
    assert MemorySpace("cpu", [], unseen=0.25).within(priced).size == [80, 0, 41 + estimated_bytes(80) // 4]
    assert MemorySpace("cpu", [], unseen=0.0).within(priced).size == [80, 0, 41]


def test_what_a_backward_would_leave_takes_no_room_unless_it_is_read_or_kept() -> None:
    nodes = tuple(function_vjp_node("@f", (value, -1), (3, 0), near=value) for value in (0, 0, 0, 3))
    graph = Graph(SPECS, (3,), nodes, ((5, 0),))
    priced = PricedGraph(graph, Costs(context_bytes=1))
    assert MemorySpace("cpu", []).within(priced).size == [41, 0, 80, 41, 80, 41, 80, 0, 80]
