"""Leaves that user code meets on workers, in sessions of several kinds (H16)."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import raygrad as rg
from raygrad.client.functions.leaf_gradients import reachable_leaves
from raygrad.proto.ir.graph import Graph, first_outputs
from raygrad.proto.ir.nodes import FunctionVjp
from raygrad.workers.code.effects import ADDS, READS, REPLACES
from raygrad.workers.interpreter.leaf_gradients import ADDED, ARGUMENT, CAPTURED, HELD, HOME, REFUSED


def leaf(*values: float) -> Any:
    return rg.tensor(list(values), dtype=rg.float64, requires_grad=True)


def layer(w: Any) -> Any:
    class Layer(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * w.detach()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with rg.enable_grad():
                y = x * w
            y.backward(grad)
            return x.grad

    return Layer


def trained(steps: int, **options: Any) -> Any:
    w, x = leaf(0.5, 2.0), leaf(1.0, 3.0)
    Layer, optimizer = layer(w), rg.optim.SGD([w], lr=0.1)
    session = rg.Session(**options) if options else None
    if session is not None:
        session.__enter__()
    try:
        for _ in range(steps):
            optimizer.zero_grad()
            Layer.apply(Layer.apply(x)).sum().backward()
            optimizer.step()
        return [w.tolist(), w.grad.tolist(), x.grad.tolist()]
    finally:
        if session is not None:
            session.__exit__(None, None, None)


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 1},
        {"workers": 2, "strict": True},
        {"strict": True, "saved": "recompute"},
        {"strict": True, "saved": "worker"},
        {"strict": True, "memory": "1MiB per worker"},
        {"strict": True, "sync": True},
    ],
)
def test_h16_gradients_of_captured_leaves_come_home(options: dict[str, Any]) -> None:
    assert trained(3, **options) == trained(3)


def test_h16_a_compiled_step_adds_to_captured_leaves() -> None:
    def run(compiled: bool) -> Any:
        w = leaf(0.5, 2.0)
        Layer = layer(w)

        def step(x: Any) -> Any:
            loss = Layer.apply(x).sum()
            loss.backward()
            return loss

        x = leaf(1.0, 3.0)
        if not compiled:
            return [step(x).item() for _ in range(3)] + [w.grad.tolist(), x.grad.tolist()]
        with rg.Session(strict=True) as session:
            fast = session.compile(step)
            return [fast(x).item() for _ in range(3)] + [w.grad.tolist(), x.grad.tolist()]

    assert run(True) == run(False)


def adding(times: int) -> Any:
    """Return a loss of three branches and the leaf to which the backward of each adds so many times, in a session or
    eagerly."""
    w, x = leaf(0.1, 0.7), leaf(1.0, 3.0)

    class Adds(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: Any) -> Any:
            ctx.save_for_backward(factor)
            return x * factor

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (factor,) = ctx.saved_tensors
            for number in range(times):
                with rg.enable_grad():
                    loss = (w * factor * (0.1 + number)).sum()
                loss.backward()
            return grad * factor, None

    def loss() -> Any:
        branches: list[Any] = [Adds.apply(x, rg.tensor(0.3 * (i + 1), dtype=rg.float64)) for i in range(3)]
        return rg.stack(branches).sum()

    return loss, w, x


@pytest.mark.parametrize("times", [0, 1, 3])
@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 2, "strict": True}, {"memory": "1MiB per worker"}])
def test_h16_what_branches_add_to_a_captured_leaf_is_added_in_their_order(times: int, options: Any) -> None:
    def run() -> Any:
        for _ in range(2):
            loss().backward()
        return [None if w.grad is None else w.grad.tolist(), x.grad.tolist()]

    loss, w, x = adding(times)
    expected = run()
    loss, w, x = adding(times)
    with rg.Session(**options):
        assert run() == expected


@pytest.mark.parametrize("before", [False, True])
def test_h16_branches_that_add_to_one_captured_leaf_do_not_wait_for_each_other(before: bool) -> None:
    loss, w, _ = adding(1)
    if before:
        w.grad = rg.ones(2, dtype=rg.float64)
    graphs: list[Graph] = []
    with rg.Session(workers=1) as session:
        driver: Any = session._driver
        submit = driver.submit
        driver.submit = lambda submission, *rest: graphs.append(submission.graph) or submit(submission, *rest)
        loss().backward()
        w.grad.tolist()
    graph = max(graphs, key=lambda graph: len(graph.nodes))
    awaited: dict[int, bool] = {}  # per value, whether it comes after a vjp
    vjps = 0
    for node, first in zip(graph.nodes, first_outputs(graph), strict=True):
        after = any(awaited.get(value, False) for value in node.inputs)
        if isinstance(node, FunctionVjp):
            vjps += 1
            assert not after
            after = True
        awaited.update(dict.fromkeys(range(first, first + len(node.outputs)), after))
    assert vjps == 3


def test_h16_reading_the_gradient_of_a_leaf_unseen_raises_where_it_is_only_added_to() -> None:
    w, x = leaf(0.5, 2.0), leaf(1.0, 3.0)
    w.grad = rg.ones(2, dtype=rg.float64)
    name = "grad"

    def hook(grad: Any) -> None:
        with rg.enable_grad():
            (w * 2.0).sum().backward()
        getattr(w, name)

    with rg.Session(strict=True):
        y = x * 2.0
        y.register_hook(hook)
        y.sum().backward()
        with pytest.raises(RuntimeError, match=r"read the \.grad of a captured leaf of shape \[2\].*by its name"):
            x.grad.tolist()


def test_h8_a_failed_pass_leaves_the_gradient_of_a_captured_leaf_as_it_was() -> None:
    w, x = leaf(0.5, 2.0), leaf(1.0, 3.0)
    Layer = layer(w)

    def fails(grad: Any) -> Any:
        raise ValueError("no")

    with rg.Session(strict=True):
        Layer.apply(x).sum().backward()
        y = x * 2.0
        y.register_hook(fails)
        Layer.apply(y).sum().backward()
        with pytest.raises(ValueError, match="no"):
            x.grad.tolist()
        assert w.grad.tolist() == [1.0, 3.0]


def test_h16_a_function_applied_before_the_session_adds_to_captured_leaves() -> None:
    w, x = leaf(0.5, 2.0), leaf(1.0, 3.0)
    y = layer(w).apply(x).sum()
    with rg.Session(strict=True):
        y.backward()
        assert [w.grad.tolist(), x.grad.tolist()] == [[1.0, 3.0], [0.5, 2.0]]


def test_a_pass_into_an_argument_that_is_no_leaf_raises() -> None:
    class Into(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            with rg.enable_grad():
                (x * grad).sum().backward()
            return grad * 2.0

    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"Into changed the \.grad of a leaf of shape \[2\].*autograd\.grad"):
        with rg.Session(strict=True):
            Into.apply(x * 3.0).sum().backward()


@pytest.mark.parametrize("kind", ["forward", "history"])
def test_what_cannot_come_home_raises(kind: str) -> None:
    w, x = leaf(0.5, 2.0), leaf(1.0, 3.0)

    def go(create_graph: bool) -> None:
        with rg.enable_grad():
            (w * w).sum().backward(create_graph=create_graph)

    class Goes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            if kind == "forward":
                go(False)
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if kind == "history":
                go(True)
            return grad

    message = r"in a forward.*client=True" if kind == "forward" else r"Goes.*\[2\] got a history"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of create_graph in backward()
        with pytest.raises(RuntimeError, match=message), rg.Session(strict=True):
            Goes.apply(x).sum().backward()
    assert w.grad is None


def test_leaves_are_met_where_code_could_do_something_with_their_gradients() -> None:
    w, v, with_grad = leaf(1.0), leaf(2.0), leaf(3.0)
    with_grad.grad = rg.tensor([4.0], dtype=rg.float64)
    captured = [w, w * 2.0, w.detach(), with_grad]
    with rg.Session() as session:
        recorder: Any = session._recorder
        assert reachable_leaves(recorder, 0, captured) is None
        reads = reachable_leaves(recorder, READS, captured)
        assert reads is not None
        assert (reads.leaves, reads.entries, reads.fate) == ([with_grad], [((CAPTURED, 3),)], REFUSED)
        adds = reachable_leaves(recorder, ADDS | REPLACES, captured, [(0, w), (1, v)], {2: w})
        assert adds is not None
        assert adds.entries == [((HELD, 2), (ARGUMENT, 0), (CAPTURED, 0)), ((ARGUMENT, 1),), ((CAPTURED, 3),)]
        assert (adds.fate, adds.replaces, adds.grads[:2]) == (HOME, True, [None, None])
        only = reachable_leaves(recorder, ADDS, [with_grad])
        assert only is not None
        assert (only.fate, only.grads) == (ADDED, [None])
        some = reachable_leaves(recorder, ADDS, captured)
        assert some is not None
        assert (some.fate, some.grads[0]) == (HOME, None)
        forward = reachable_leaves(recorder, ADDS, captured, forward=True)
        assert forward is not None
        assert forward.fate == REFUSED


def test_a_captured_leaf_with_a_hook_after_accumulation_is_not_added_to_elsewhere() -> None:
    leaf = rg.ones(2, requires_grad=True)
    leaf.register_post_accumulate_grad_hook(lambda param: None)

    class Adds(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            with rg.enable_grad():
                (leaf * 3).sum().backward()
            return grad

    with rg.Session() as session:
        Adds.apply(rg.ones(2, requires_grad=True)).sum().backward()
        with pytest.raises(RuntimeError, match="the leaf has hooks"):
            session._waiter.wait_for_everything()
