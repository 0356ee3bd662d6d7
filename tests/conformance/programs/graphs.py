"""Shapes of graphs: chains, diamonds, the exchange, fan-out, ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np

from .functions import np_linear, np_mul, np_scale, np_square, np_tanh
from .registry import Log, constant, leaf, program


@program("FN-01", tags={"numpy"})
def chain_of_tanh(T: Any, log: Log) -> Any:
    """Nodes of a chain run out of order, forward or backward."""
    Tanh = np_tanh(T)
    x = leaf(T, 3, 4)
    y = x
    for _ in range(5):
        y = Tanh.apply(y)
    y.sum().backward()
    return [y, x.grad]


@program("FN-02", tags={"numpy"})
def chain_in_separate_style(T: Any, log: Log) -> Any:
    """`setup_context` given wrapped outputs, or arguments in another form than forward's."""
    Square = np_square(T)
    x = leaf(T, 5)
    y = Square.apply(Square.apply(x))
    y.sum().backward()
    return [y, x.grad]


@program("EN-19")
def chain_of_built_in_ops(T: Any, log: Log) -> Any:
    """A built-in op's kernel or derivative that differs between eager and recorded runs."""
    x = leaf(T, 4, 3)
    y = ((x * 2 - 1).exp() / 3 + x.sigmoid()).sqrt().log().tanh()
    y.sum().backward()
    return [y, x.grad]


@program("ND-16", tags={"numpy"})
def chain_of_two_hundred_nodes(T: Any, log: Log) -> Any:
    """Recursion over the depth of a graph, and a Python number that becomes part of each node's plan."""
    Scale = np_scale(T)
    x = leaf(T, 3)
    y = x
    for step in range(100):
        y = Scale.apply(y, 1.0 + 0.01 * step) - 0.1
    y.sum().backward()
    return [y, x.grad]


@program("FN-01", tags={"numpy"})
def functions_and_built_in_ops_take_turns(T: Any, log: Log) -> Any:
    """A boundary between bare arrays and tensors that changes a value."""
    Tanh = np_tanh(T)
    x = leaf(T, 4)
    y = Tanh.apply(Tanh.apply(x * 3) + x).exp()
    y.mean().backward()
    return [y, x.grad]


@program("EN-19", "EN-21", tags={"numpy"})
def diamond(T: Any, log: Log) -> Any:
    """A join that runs before both of its branches have arrived."""
    Tanh, Square = np_tanh(T), np_square(T)
    x = leaf(T, 4)
    middle = Tanh.apply(x)
    y = Square.apply(middle) * Tanh.apply(middle)
    y.sum().backward()
    return [y, x.grad]


@program("EN-19", tags={"numpy"})
def three_nested_diamonds(T: Any, log: Log) -> Any:
    """Joins inside joins."""
    Tanh, Mul = np_tanh(T), np_mul(T)
    x = leaf(T, 3)
    y = x
    for _ in range(3):
        y = Mul.apply(Tanh.apply(y), y + 1) + y
    y.sum().backward()
    return [y, x.grad]


@program("H6", tags={"numpy"})
def exchange(T: Any, log: Log) -> Any:
    """Two convex segments that wait for one another: no order of them exists."""
    Tanh, Mul = np_tanh(T), np_mul(T)
    x, y = leaf(T, 4), leaf(T, 4, seed=1)
    a = Tanh.apply(x)
    c = Tanh.apply(y)
    d = Mul.apply(y, a)
    b = Mul.apply(x, c)
    (b.sum() + d.sum()).backward()
    return [a, b, c, d, x.grad, y.grad]


@program("H6")
def exchange_in_rounds(T: Any, log: Log) -> Any:
    """The exchange repeated, so that every cut between two workers is crossed both ways, in built-in ops."""
    a, b = leaf(T, 16, 16), leaf(T, 16, 16, seed=1)
    left, right = a, b
    for _ in range(4):
        left, right = (left @ right).tanh(), (right @ left).tanh()
    (left * right).sum().backward()
    return [left, right, a.grad, b.grad]


def fan_out(T: Any, consumers: int) -> Any:
    Scale = np_scale(T)
    x = leaf(T, 50, dtype="float32")
    middle = x * 1.5
    branches = [Scale.apply(middle, 10.0 ** (k - 2) / 3) for k in range(consumers)]
    total = branches[0]
    for branch in branches[1:]:
        total = total + branch
    total.sum().backward()
    return [total, x.grad]


@program("H19", "EN-21", tags={"numpy"})
def fan_out_to_three(T: Any, log: Log) -> Any:
    """Three contributions summed in another order or shape than the eager engine's."""
    return fan_out(T, 3)


@program("H19", tags={"numpy"})
def fan_out_to_four(T: Any, log: Log) -> Any:
    """Four contributions: a full binary tree."""
    return fan_out(T, 4)


@program("H19", tags={"numpy"})
def fan_out_to_seven(T: Any, log: Log) -> Any:
    """Seven contributions: a tree with an odd one out at two levels."""
    return fan_out(T, 7)


@program("H19")
def leaf_fans_out_to_seven(T: Any, log: Log) -> Any:
    """A fan-in at an accumulator, in built-in ops of seven kinds."""
    x = leaf(T, 40, dtype="float32")
    y = x.exp() + x.tanh() * 1e3 + x * x + x.sigmoid() / 7 + x.sin() + x.cos() * 1e-3 + x * 1e2
    y.sum().backward()
    return [y, x.grad]


@program("EN-16", tags={"numpy"})
def unused_branch(T: Any, log: Log) -> Any:
    """Work that nothing needs changing what the rest gives."""
    Tanh = np_tanh(T)
    x = leaf(T, 4)
    y = Tanh.apply(x)
    Tanh.apply(y * 100)
    y.sum().backward()
    return [y, x.grad]


@program("EN-19")
def branch_without_gradient(T: Any, log: Log) -> Any:
    """A branch behind `detach` taking part in backward."""
    x = leaf(T, 4)
    y = x * x.detach() + x.exp().detach()
    y.sum().backward()
    return [y, x.grad]


@program("ND-04", "EN-07", tags={"numpy"})
def leaf_used_twice(T: Any, log: Log) -> Any:
    """Two accumulators for one leaf."""
    Linear = np_linear(T)
    x, w = constant(T, 2, 3), leaf(T, 3, 3)
    y = Linear.apply(Linear.apply(x, w), w)
    y.sum().backward()
    return [y, w.grad]


@program("FN-08", tags={"numpy"})
def same_tensor_passed_twice(T: Any, log: Log) -> Any:
    """The slots of one tensor given twice mixed up or merged."""
    Mul = np_mul(T)
    x = leaf(T, 4)
    y = Mul.apply(x, x)
    y.sum().backward()
    return [y, x.grad]


@program("FN-08", "H19", tags={"numpy"})
def same_intermediate_passed_twice(T: Any, log: Log) -> Any:
    """A doubled edge between two nodes counted once."""
    Tanh, Mul = np_tanh(T), np_mul(T)
    x = leaf(T, 4)
    middle = Tanh.apply(x)
    y = Mul.apply(middle, middle) + middle
    y.sum().backward()
    return [y, x.grad]


@program("FN-01", tags={"numpy"})
def ensemble_of_branches(T: Any, log: Log) -> Any:
    """Branches that run at once and are summed in the order in which they end."""
    Linear, Tanh = np_linear(T), np_tanh(T)
    x = leaf(T, 24, 24)
    weights = [leaf(T, 24, 24, seed=k + 1) for k in range(4)]
    outputs = [Tanh.apply(Linear.apply(Tanh.apply(Linear.apply(x, w)), w)) for w in weights]
    loss: Any = sum((o * o).mean() for o in outputs)
    loss.backward()
    return [loss, x.grad, [w.grad for w in weights]]


@program("FN-01")
def ensemble_of_unequal_branches(T: Any, log: Log) -> Any:
    """A short branch that overtakes a long one."""
    x = leaf(T, 32, 32, dtype="float32")
    outputs = []
    for length in (1, 2, 4, 8):
        y = x
        for _ in range(length):
            y = (y @ x / 6).tanh()
        outputs.append((y * y).mean())
    loss = T.stack(outputs).sum()
    loss.backward()
    return [loss, x.grad]


@program("EN-20", tags={"numpy"})
def ladder(T: Any, log: Log) -> Any:
    """Many crossings between two chains."""
    Tanh, Mul = np_tanh(T), np_mul(T)
    x, y = leaf(T, 6), leaf(T, 6, seed=1)
    upper, lower = x, y
    for _ in range(5):
        upper, lower = Tanh.apply(lower) + upper, Mul.apply(upper, lower)
    (upper.sum() + lower.sum()).backward()
    return [upper, lower, x.grad, y.grad]


@program("FN-01", tags={"numpy"})
def skip_connections(T: Any, log: Log) -> Any:
    """Values kept long after their first use."""
    Tanh = np_tanh(T)
    x = leaf(T, 4)
    history = [x]
    for _ in range(5):
        history.append(Tanh.apply(sum(history)))
    history[-1].sum().backward()
    return [history[-1], x.grad]


@program("FN-01", tags={"numpy"})
def control_flow_over_python_values(T: Any, log: Log) -> Any:
    """A graph that depends on Python values taken for another's."""
    Scale, Tanh = np_scale(T), np_tanh(T)
    x = leaf(T, 3)
    y = x
    for step in range(6):
        y = Scale.apply(y, 1.1) if step % 3 else Tanh.apply(y)
    y.sum().backward()
    return [y, x.grad]


@program("FN-10", tags={"numpy"})
def function_applied_inside_forward(T: Any, log: Log) -> Any:
    """A Function applied inside another's forward, recorded or differentiated by itself."""
    Tanh = np_tanh(T)

    class Outer(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            inner = Tanh.apply(x)
            ctx.save_for_backward(inner)
            ctx.inner_requires_grad = inner.requires_grad
            return T.from_numpy(inner.numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            (inner,) = ctx.saved_tensors
            log("inner requires grad", ctx.inner_requires_grad)
            return T.from_numpy(2 * g.numpy() * (1 - inner.numpy() ** 2))

    x = leaf(T, 4)
    y = Outer.apply(x)
    y.sum().backward()
    return [y, x.grad]


@program("FN-19", tags={"numpy"})
def inherited_function(T: Any, log: Log) -> Any:
    """A derived class that loses what it inherits, or takes its parent's name, when it travels."""
    Tanh = np_tanh(T)

    class HalfGradient(Tanh):
        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(Tanh.backward(ctx, g).numpy() / 2)

    x = leaf(T, 4)
    y = HalfGradient.apply(x)
    name = y.grad_fn.name()
    y.sum().backward()
    return [y, x.grad, name]


@program("FN-10", tags={"numpy"})
def solver_with_an_adjoint(T: Any, log: Log) -> Any:
    """The main use: a hand-written solver whose backward solves the transposed system."""

    class Solve(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            x = np.linalg.solve(a.numpy(), b.numpy())
            ctx.save_for_backward(a, T.from_numpy(x))
            return T.from_numpy(x.copy())

        @staticmethod
        def backward(ctx, g):
            a, x = ctx.saved_tensors
            adjoint = np.linalg.solve(a.numpy().T, g.numpy())
            return T.from_numpy(-np.outer(adjoint, x.numpy())), T.from_numpy(adjoint)

    a, b = leaf(T, 6, 6), leaf(T, 6, seed=1)
    x = Solve.apply(a + 5 * T.eye(6, dtype=T.float64), b)
    (x * x).sum().backward()
    return [x, a.grad, b.grad]
