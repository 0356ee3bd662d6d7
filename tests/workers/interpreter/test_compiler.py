"""Steps of every role, run over slots: on one host, without transport."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raygrad.autograd.dispatch.autocast import autocast
from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.ir.graph import KEEP_ON_WORKER, Graph, structural_hash
from raygrad.proto.ir.nodes import ROLE_OP, ROLE_SUM, UNDEFINED, CheckDigest, ControlDependency, Digest, GradSum, Node
from raygrad.proto.ir.program import Call, Record
from raygrad.proto.ir.specs import ArraySpec, ConstSpec, ContextSpec, ObjectSpec
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import Planner
from raygrad.workers.code.shipping import ship
from raygrad.workers.process.host import WorkerHost
from raygrad.workers.values.fingerprints import digest

from ...graph_nodes import hook_node, op_node, op_vjp_node, plain_node

VECTOR = ArraySpec((2,), "float64", "cpu", ((0,), ()))
CONTEXT = ContextSpec()
CONST = ConstSpec()


def run(graph: Graph, given: list[Any], host: WorkerHost | None = None) -> tuple[Record, dict[int, Any]]:
    """Run a graph on one worker; return the record and the kept values."""
    host = host or WorkerHost("worker 0")
    key = structural_hash(encode_graph(graph))
    planned = Planner(Cluster.of(1)).plan(graph, (-1,) * len(graph.externals), key)
    (program,) = planned.programs
    host.load(key, program)
    record, _ = host.run(Call(1, 0, 0, key, tuple(given[e] for e, _ in program.externals)), [])
    pinned = [value for value, mode in graph.keep if mode == KEEP_ON_WORKER]
    values = {value: host.fetch(1, value) for value in pinned} if record.status == "done" else {}
    return record, values


def op(fn: str, inputs: tuple[int, ...]) -> Node:
    return op_node(fn, inputs, (0,))


def test_an_op_runs_its_kernel_on_bare_arrays() -> None:
    graph = Graph((VECTOR, CONST), (0, 1), (op("mul", (0, 1)),), ((2, KEEP_ON_WORKER),))
    record, values = run(graph, [np.array([1.0, 2.0]), 3.0])
    assert record.status == "done"
    assert values[2].tolist() == [3.0, 6.0]


@pytest.mark.parametrize("role", [ROLE_OP, ROLE_SUM])
def test_a_result_that_nobody_reads_takes_nobody_s_place(role: str) -> None:
    """A holder may die between the choice of what runs and the graph's being built."""
    unread = op("mul", (0, 0)) if role == ROLE_OP else plain_node(GradSum, (0, 0), (0,))
    graph = Graph((VECTOR,), (0,), (op("sin", (0,)), unread), ((1, KEEP_ON_WORKER),))
    _, values = run(graph, [np.array([1.0, 2.0])])
    assert values[1].tolist() == np.sin([1.0, 2.0]).tolist()


def test_a_vjp_gives_the_wanted_gradients_in_their_operands_shapes() -> None:
    scalar = ArraySpec((), "float64", "cpu")
    vjp = op_vjp_node("mul", (0, 1, 2), (1,), (0, 1), (0, 1), (0,))
    graph = Graph((VECTOR, scalar), (0, 1, 0), (vjp,), ((3, KEEP_ON_WORKER),))
    _, values = run(graph, [np.array([1.0, 2.0]), np.array(3.0), np.array([1.0, 10.0])])
    assert values[3].shape == ()
    assert float(values[3]) == 21.0


def test_h5_an_undefined_gradient_stays_undefined_through_vjps_and_is_skipped_by_sums() -> None:
    vjp = op_vjp_node("mul", (0, 0, UNDEFINED), (0,), (1, 0), (0, 0), (0,))
    total = plain_node(GradSum, (1, 0), (0,))
    graph = Graph((VECTOR,), (0,), (vjp, total), ((1, KEEP_ON_WORKER), (2, KEEP_ON_WORKER)))
    record, values = run(graph, [np.array([1.0, 2.0])])
    assert values[1] is None
    assert values[2].tolist() == [1.0, 2.0]
    assert dict(record.results)[1] is None


def test_the_sum_of_two_gradients_without_axes_is_an_array_as_they_are() -> None:
    scalar = ArraySpec((), "float64", "cpu")
    total = plain_node(GradSum, (0, 0), (0,))
    _, values = run(Graph((scalar,), (0,), (total,), ((1, KEEP_ON_WORKER),)), [np.array(3.0)])
    assert type(values[1]) is np.ndarray
    assert values[1].tolist() == 6.0


def host_with(*code: Any) -> tuple[WorkerHost, list[str]]:
    host, names = WorkerHost("worker 0"), []
    for each in code:
        shipped = ship(each, in_process=True)
        host.learn(shipped.fingerprint, shipped.shipment)
        names.append("@" + shipped.fingerprint)
    return host, names


def test_hooks_may_replace_gradients_and_are_reported() -> None:
    host, (fn,) = host_with(lambda grad: grad * 2.0)
    hook = hook_node(fn, (0,), (0,))
    record, values = run(Graph((VECTOR,), (0,), (hook,), ((1, KEEP_ON_WORKER),)), [np.array([1.0, 2.0])], host)
    assert values[1].tolist() == [2.0, 4.0]
    assert record.hooks == (0,)


def test_a_gradient_that_nobody_reads_is_put_nowhere() -> None:
    vjp = op_vjp_node("mul", (0, 1, 2), (0, 0), (1, 1), (0, 0), (0,))
    for kept, expected in ((3, [4.0, 4.0]), (4, [3.0, 3.0])):
        graph = Graph((VECTOR,), (0, 0, 0), (vjp,), ((kept, KEEP_ON_WORKER),))
        record, values = run(graph, [np.full(2, 3.0), np.full(2, 4.0), np.ones(2)])
        assert record.status == "done"
        assert values[kept].tolist() == expected


def _asks(g: Any) -> Any:
    from raygrad.autograd.dispatch.autocast import is_autocast_enabled

    return g * (2.0 if is_autocast_enabled("cpu") else 3.0)


@pytest.mark.parametrize(
    ("recorded", "factor"), [((), 3.0), ((("casting", 0, "float16", 1),), 3.0), ((("casting", 1, "float16", 1),), 2.0)]
)
def test_lg_14_user_code_sees_the_casting_state_in_which_it_was_recorded(recorded: Any, factor: float) -> None:
    host = WorkerHost("worker 0")
    shipped = ship(_asks)
    host.learn(shipped.fingerprint, shipped.shipment)
    hook = hook_node("@" + shipped.fingerprint, (0,), (0,), settings=recorded)
    graph = Graph((VECTOR,), (0,), (hook,), ((1, KEEP_ON_WORKER),))
    with autocast("cpu"):  # of the thread that waits: none of it is seen
        record, values = run(graph, [np.array([1.0, 2.0])], host)
    assert record.failure is None
    assert values[1].tolist() == [factor, 2 * factor]


def test_h2_a_context_passes_only_if_the_same_bits_were_returned_again() -> None:
    array, other = np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-15])
    specs = (VECTOR, ObjectSpec())
    nodes = (
        plain_node(Digest, (0,), (1,)),
        CheckDigest((1, 2, 1), (0,), -1, UNDEFINED, function="Draws"),
    )
    graph = Graph(specs, (0, 0), nodes, ((3, KEEP_ON_WORKER),))
    assert run(graph, [array, array.copy()])[1][3] is not array
    record, _ = run(graph, [array, other])
    assert record.failure is not None
    assert record.failure.type == "ImpureFunctionError"
    assert "Draws was run again" in record.failure.message


def test_a_value_comes_after_others_as_it_is() -> None:
    nodes = (plain_node(ControlDependency, (0, 1), (0,)),)
    graph = Graph((VECTOR,), (0, 0), nodes, ((2, KEEP_ON_WORKER),))
    array = np.ones(2)
    assert run(graph, [array, np.zeros(2)])[1][2] is array


def test_a_fingerprint_tells_bits_shapes_and_dtypes_apart_and_not_layouts() -> None:
    array = np.arange(6.0).reshape(2, 3)
    others = [array + 0.0, np.asfortranarray(array)]
    assert {digest([one]) for one in others} == {digest([array])}
    different = [array.reshape(3, 2), array.astype(np.float32), array + 1e-15, None, np.array([0.0]), np.array([-0.0])]
    assert len({digest([one]) for one in [array, *different]}) == 1 + len(different)


@pytest.mark.parametrize("undefined", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(
    "node", [op_node("mul", (0, 1), (0,)), op_vjp_node("sin", (0, 1), (0,), (1,), (0,), (0,))], ids=["op", "vjp"]
)
def test_what_is_made_of_an_undefined_gradient_is_undefined(node: Node, undefined: tuple[int, ...]) -> None:
    if node.depth and 1 not in undefined:
        return  # what a vjp saved is defined
    graph = Graph((VECTOR,), (0, 0), (node,), ((2, KEEP_ON_WORKER),))
    given = [None if number in undefined else np.ones(2) for number in range(2)]
    record, values = run(graph, given)
    assert (record.status, values) == ("done", {2: None})
