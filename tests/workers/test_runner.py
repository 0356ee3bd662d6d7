"""Steps of every role, run over slots: on one host, without transport."""

from __future__ import annotations

from typing import Any

import numpy as np

import raygrad as rg
from raygrad.proto.graph import (
    KEEP_ON_WORKER,
    ROLE_FUNCTION,
    ROLE_HOOK,
    ROLE_OP,
    ROLE_SUM,
    UNDEFINED,
    VJP,
    Graph,
    Node,
    Spec,
    structural_hash,
)
from raygrad.proto.program import Call, Record
from raygrad.scheduler.plan import Cluster
from raygrad.scheduler.planner import Planner
from raygrad.workers.host import WorkerHost
from raygrad.workers.shipping import ship

VECTOR = Spec("array", (2,), "float64", "cpu", ((0,), ()))
CONTEXT = Spec("context")
CONST = Spec("const")


def run(graph: Graph, given: list[Any], host: WorkerHost | None = None) -> tuple[Record, dict[int, Any]]:
    """Run a graph on one worker; return the record and the kept values."""
    host = host or WorkerHost("worker 0")
    key = structural_hash(graph.encode())
    planned = Planner(Cluster.of(1)).plan(graph, (-1,) * len(graph.externals), key)
    (program,) = planned.programs
    host.load(key, program)
    record, _ = host.run(Call(1, 0, 0, key, tuple(given[e] for e, _ in program.externals)), [])
    pinned = [value for value, mode in graph.keep if mode == KEEP_ON_WORKER]
    values = {value: host.fetch(1, value) for value in pinned} if record.status == "done" else {}
    return record, values


def op(fn: str, inputs: tuple[int, ...]) -> Node:
    return Node(ROLE_OP, fn, (), inputs, (0,), ())


def test_an_op_runs_its_kernel_on_bare_arrays() -> None:
    graph = Graph((VECTOR, CONST), (0, 1), (op("mul", (0, 1)),), ((2, KEEP_ON_WORKER),))
    record, values = run(graph, [np.array([1.0, 2.0]), 3.0])
    assert record.status == "done"
    assert values[2].tolist() == [3.0, 6.0]


def test_a_vjp_gives_the_wanted_gradients_in_their_operands_shapes() -> None:
    scalar = Spec("array", (), "float64", "cpu")
    vjp = Node(ROLE_OP, "mul", (VJP,), (0, 1, 2), (1,), ((), (0, 1), (0, 1), (0,)))
    graph = Graph((VECTOR, scalar), (0, 1, 0), (vjp,), ((3, KEEP_ON_WORKER),))
    _, values = run(graph, [np.array([1.0, 2.0]), np.array(3.0), np.array([1.0, 10.0])])
    assert values[3].shape == ()
    assert float(values[3]) == 21.0


def test_h5_an_undefined_gradient_stays_undefined_through_vjps_and_is_skipped_by_sums() -> None:
    vjp = Node(ROLE_OP, "mul", (VJP,), (0, 0, UNDEFINED), (0,), ((), (1, 0), (0, 0), (0,)))
    total = Node(ROLE_SUM, "sum", (), (1, 0), (0,), ())
    graph = Graph((VECTOR,), (0,), (vjp, total), ((1, KEEP_ON_WORKER), (2, KEEP_ON_WORKER)))
    record, values = run(graph, [np.array([1.0, 2.0])])
    assert values[1] is None
    assert values[2].tolist() == [1.0, 2.0]
    assert dict(record.sizes)[1] == -1


class Scale(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        assert ctx.saved_tensors[0].requires_grad
        return grad * ctx.factor, None


def host_with(*code: Any) -> tuple[WorkerHost, list[str]]:
    host, names = WorkerHost("worker 0"), []
    for each in code:
        shipped = ship(each, in_process=True)
        host.learn(shipped.fingerprint, shipped.shipment)
        names.append("@" + shipped.fingerprint)
    return host, names


def test_a_function_and_its_vjp_share_a_live_context() -> None:
    host, (fn,) = host_with(Scale)
    forward = Node(ROLE_FUNCTION, fn, (), (0, 1), (1, 0), (2, (1, -1), 1, None))
    backward = Node(
        ROLE_FUNCTION, fn, (VJP,), (2, 0, 0, UNDEFINED, UNDEFINED), (0,), (4, 2, 1, (0,), (1,), 0, 0, None), near=2
    )
    graph = Graph((VECTOR, CONTEXT, CONST), (0, 2), (forward, backward), ((3, KEEP_ON_WORKER), (4, KEEP_ON_WORKER)))
    record, values = run(graph, [np.array([1.0, 2.0]), 5.0], host)
    assert record.failure is None
    assert values[3].tolist() == [5.0, 10.0]
    assert values[4].tolist() == [5.0, 10.0]
    (learned,) = record.learned
    assert learned.saved_inputs == (0,)
    assert learned.outputs[0][0] == "array"


def test_h3_an_open_ended_function_reports_and_pins_its_outputs() -> None:
    host, (fn,) = host_with(Scale)
    forward = Node(ROLE_FUNCTION, fn, (), (0, 1), (1,), (2, (1, -1), 1, None))
    graph = Graph((VECTOR, CONTEXT, CONST), (0, 2), (forward,), ((2, 1),), True)
    record, _ = run(graph, [np.array([1.0, 2.0]), 5.0], host)
    assert host.fetch(1, 3).tolist() == [5.0, 10.0]
    assert dict(record.results)[3].tolist() == [5.0, 10.0]
    assert record.learned[0].outputs[-2:] == (("tuple", 0), ("saves", 1))


def test_arrays_given_to_user_code_are_read_only() -> None:
    class Writes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.numpy()[0] = 7.0
            return x

    host, (fn,) = host_with(Writes)
    forward = Node(ROLE_FUNCTION, fn, (), (0,), (1, 0), (1, (0,), 0, None))
    record, _ = run(Graph((VECTOR, CONTEXT), (0,), (forward,), ()), [np.array([1.0, 2.0])], host)
    assert record.failure is not None
    assert record.failure.type == "ValueError"
    assert "read-only" in record.failure.message


def test_hooks_may_replace_gradients_and_are_reported() -> None:
    host, (fn,) = host_with(lambda grad: grad * 2.0)
    hook = Node(ROLE_HOOK, fn, (), (0,), (0,), ("tensor", 1, 0))
    record, values = run(Graph((VECTOR,), (0,), (hook,), ((1, KEEP_ON_WORKER),)), [np.array([1.0, 2.0])], host)
    assert values[1].tolist() == [2.0, 4.0]
    assert record.hooks == (0,)


def test_h7_the_third_derivative_comes_from_one_backward() -> None:
    class Cube(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * x * 3.0

    host, (fn,) = host_with(Cube)
    forward = Node(ROLE_FUNCTION, fn, (), (0,), (1, 0), (1, (1,), 1, None))
    level1 = (1, 0, -1)  # cotangent, x, (y not saved)
    level2 = (1, *level1)
    level3 = (UNDEFINED, 1, UNDEFINED, *level2)
    first = Node(ROLE_FUNCTION, fn, (VJP,), (2, *level1), (0,), (3, 1, 1, (0,), (1,), 0, 0, None), near=2)
    second = Node(ROLE_FUNCTION, fn, (VJP,) * 2, (2, *level2), (0,), (4, 1, 1, (1,), (2,), 0, 0, None), near=2)
    third = Node(ROLE_FUNCTION, fn, (VJP,) * 3, (2, *level3), (0,), (7, 1, 1, (2,), (3, 5), 0, 0, None), near=2)
    graph = Graph(
        (VECTOR, CONTEXT), (0, 0), (forward, first, second, third), tuple((v, KEEP_ON_WORKER) for v in (4, 5, 6))
    )
    record, values = run(graph, [np.array([1.0, 2.0]), np.array([1.0, 1.0])], host)
    assert record.failure is None, record.failure
    assert values[4].tolist() == [3.0, 12.0]  # 3 x^2
    assert values[5].tolist() == [6.0, 12.0]  # 6 x
    assert values[6].tolist() == [6.0, 6.0]
