"""Hooks of tensors and nodes: what they change, and in which order they run."""

from __future__ import annotations

from typing import Any

import numpy as np

from .functions import np_mul, np_sin_cos, np_square, np_tanh
from .registry import Log, constant, leaf, program, values

LIMITS = values(4, seed=7)


@program("HK-01")
def hook_of_a_leaf(T: Any, log: Log) -> Any:
    """A leaf's hook that runs after the accumulation, or not at all."""
    x = leaf(T, 4)
    x.register_hook(lambda g: g * 2)
    (x * x).sum().backward()
    return [x.grad]


@program("HK-01")
def hook_between_functions(T: Any, log: Log) -> Any:
    """A hook whose replacement does not reach the node behind."""
    Tanh = np_tanh(T)
    x = leaf(T, 4)
    middle = Tanh.apply(x)
    middle.register_hook(lambda g: g.clamp(-0.5, 0.5) + 1)
    Tanh.apply(middle).sum().backward()
    return [x.grad]


@program("HK-01", "ND-11")
def hooks_in_a_row(T: Any, log: Log) -> Any:
    """Hooks out of registration order, or that see the gradient from before."""
    x = leaf(T, 4)
    middle = x * 1
    middle.register_hook(lambda g: log("first", g))
    middle.register_hook(lambda g: g * 2)
    middle.register_hook(lambda g: log("third", g))
    middle.register_hook(lambda g: g + 1)
    middle.register_hook(lambda g: log("fifth", g))
    (middle * 3).sum().backward()
    return [x.grad]


@program("HK-12")
def hook_registered_twice(T: Any, log: Log) -> Any:
    """The same function registered twice kept once."""
    x = leaf(T, 4)

    def double(g):
        return g * 2

    x.register_hook(double)
    x.register_hook(double)
    (x * x).sum().backward()
    return [x.grad]


@program("HK-01", "EN-19", "H19")
def hook_sees_the_sum(T: Any, log: Log) -> Any:
    """A hook called for each contribution instead of once, for their sum."""
    Tanh, Square = np_tanh(T), np_square(T)
    x = leaf(T, 4)
    middle = Tanh.apply(x)
    middle.register_hook(lambda g: log("sum", g))
    x.register_hook(lambda g: log("leaf", g))
    (Square.apply(middle) + middle * 5 + Tanh.apply(middle)).sum().backward()
    return [x.grad]


@program("ND-12")
def hook_removed(T: Any, log: Log) -> Any:
    """A hook that runs after it was removed."""
    x = leaf(T, 4)
    handle = x.register_hook(lambda g: g * 100)
    x.register_hook(lambda g: g * 2)
    handle.remove()
    (x * x).sum().backward()
    return [x.grad]


@program("ND-10", tags={"numpy"})
def prehook_changes_the_gradient(T: Any, log: Log) -> Any:
    """A node's prehook whose result backward does not see."""

    class Twice(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(2 * x.numpy())

        @staticmethod
        def backward(ctx, g):
            log("backward", g)
            return T.from_numpy(2 * g.numpy())

    x = leaf(T, 4)
    y = Twice.apply(x)
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_prehook(lambda grads: log("second prehook", grads[0]))
    y.sum().backward()
    return [x.grad]


@program("ND-09", "ND-11")
def node_hook_changes_the_gradient(T: Any, log: Log) -> Any:
    """A node's hook whose result the next node does not see, or that gets other slots."""
    Mul = np_mul(T)
    x, y = leaf(T, 4), leaf(T, 4, seed=1)
    z = Mul.apply(x, y)
    z.grad_fn.register_hook(lambda grad_inputs, grad_outputs: (grad_inputs[0] * 2, None))

    def look(grad_inputs, grad_outputs):
        log("inputs", grad_inputs[0])
        log("undefined", grad_inputs[1])
        log("outputs", grad_outputs[0])

    z.grad_fn.register_hook(look)
    z.sum().backward()
    return [x.grad, y.grad]


@program("ND-09")
def node_hook_sees_slots(T: Any, log: Log) -> Any:
    """Slots of undefined gradients left out of what a node hook sees, or slots of what is no tensor among them."""

    class Blend(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, y):
            return x * factor + y

        @staticmethod
        def backward(ctx, g):
            return g * 2, None, None

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    z = Blend.apply(x, 2.0, y)
    z.grad_fn.register_hook(lambda inputs, outputs: log("slots", [g is None for g in inputs]))
    z.sum().backward()
    return [x.grad, y.grad]


@program("ND-09", torch=False)  # torch shows what backward returned, also where nobody needs it
def node_hook_sees_no_gradient_that_nobody_needs(T: Any, log: Log) -> Any:
    """A gradient computed, sent and shown for an input that does not require grad."""
    Mul = np_mul(T)
    x = leaf(T, 3)
    z = Mul.apply(x, constant(T, 3))
    z.grad_fn.register_hook(lambda inputs, outputs: log("slots", [g is None for g in inputs]))
    z.sum().backward()
    return [x.grad]


@program("HK-05", tags={"numpy"})
def order_at_a_node(T: Any, log: Log) -> Any:
    """Hooks of a non-leaf out of order: tensor hooks, prehooks, the node, hooks."""

    class Twice(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(2 * x.numpy())

        @staticmethod
        def backward(ctx, g):
            log("node", g)
            return T.from_numpy(2 * g.numpy())

    x = leaf(T, 3)
    y = Twice.apply(x)
    y.grad_fn.register_hook(lambda inputs, outputs: log("hook 1", inputs[0]))
    y.grad_fn.register_prehook(lambda grads: (grads[0] + 1,))
    y.register_hook(lambda g: log("tensor 1", g))
    y.grad_fn.register_prehook(lambda grads: log("prehook 2", grads[0]))
    y.register_hook(lambda g: g * 10)
    y.grad_fn.register_hook(lambda inputs, outputs: log("hook 2", outputs[0]))
    y.register_hook(lambda g: log("tensor 3", g))
    (y * 3).sum().backward()
    return [x.grad]


@program("HK-06", "ND-14")
def order_at_a_leaf(T: Any, log: Log) -> Any:
    """Hooks of a leaf and of its accumulator out of order."""
    x = leaf(T, 3)
    y = x * 2
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda inputs, outputs: log("accumulated", outputs[0]))
    accumulator.register_prehook(lambda grads: log("about to accumulate", grads[0]))
    x.register_hook(lambda g: g * 5)
    x.register_hook(lambda g: log("tensor", g))
    y.sum().backward()
    return [x.grad]


@program("HK-05", "EN-20")
def order_over_a_graph(T: Any, log: Log) -> Any:
    """Nodes run in another order than the engine's: the most recently created first."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    tensors = {"a": Tanh.apply(x)}
    tensors["b"] = Tanh.apply(tensors["a"])
    tensors["c"] = Tanh.apply(tensors["a"])
    tensors["d"] = tensors["b"] * 2
    tensors["e"] = tensors["c"] * tensors["b"]
    tensors["f"] = tensors["d"] + tensors["e"]
    for name, tensor in tensors.items():
        tensor.register_hook(lambda g, name=name: log(name, g))
        tensor.grad_fn.register_hook(lambda inputs, outputs, name=name: log(name + " ran", outputs[0]))
    tensors["f"].sum().backward()
    return [x.grad]


@program("HK-07", "EN-31")
def retained_gradient_and_hooks(T: Any, log: Log) -> Any:
    """`retain_grad` that keeps the gradient from before a hook, or from after a prehook."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    y = Tanh.apply(x)
    y.retain_grad()
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 100,))
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    return [y.grad, x.grad]


@program("HK-08", "ND-15")
def hooks_under_grad(T: Any, log: Log) -> Any:
    """grad() that gives a leaf's gradient from before its hooks."""
    x = leaf(T, 3)
    y = x * 3
    x.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: g + 1)
    (g,) = T.autograd.grad((y * y).sum(), x)
    return [g, x.grad]


@program("HK-09", "EN-11")
def hooks_of_leaves_not_asked_for(T: Any, log: Log) -> Any:
    """Hooks that run although their leaf's gradient was not asked for."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    x.register_hook(lambda g: log("x", g))
    y.register_hook(lambda g: log("y", g))
    (g,) = T.autograd.grad((x * y).sum(), x)
    return [g, x.grad, y.grad]


@program("ND-10", "OU-07", tags={"multi_output"})
def hooks_of_a_node_with_two_outputs(T: Any, log: Log) -> Any:
    """What prehooks and hooks see of an output that was not used."""
    SinCos = np_sin_cos(T)
    x = leaf(T, 3)
    sin, cos = SinCos.apply(x)
    sin.register_hook(lambda g: log("sin", g))
    cos.register_hook(lambda g: log("cos", g))
    sin.grad_fn.register_prehook(lambda grads: log("undefined", [g is None for g in grads]))
    cos.sum().backward()
    return [x.grad]


@program("HK-01", "CX-12")
def hook_registered_between_two_passes(T: Any, log: Log) -> Any:
    """A hook registered after a pass that takes part in it, or not in the next."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    y = Tanh.apply(x)
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    handle = y.register_hook(lambda g: g * 10)
    loss.backward(retain_graph=True)
    handle.remove()
    loss.backward()
    return [x.grad]


@program("HK-01", "DR-06", tags={"numpy"})
def hook_computes_in_numpy(T: Any, log: Log) -> Any:
    """A hook that reads its argument, a global array and a closure's number."""
    Tanh = np_tanh(T)
    limit = 0.25
    x = leaf(T, 4)
    y = Tanh.apply(x)
    y.register_hook(lambda g: T.from_numpy((g.numpy() * LIMITS).clip(-limit, limit)))
    (y * y).sum().backward()
    return [x.grad]


@program("ND-13", tags={"numpy"})
def hook_registered_in_forward(T: Any, log: Log) -> Any:
    """A hook that forward registers on its own node, lost with the process that ran forward."""

    class Watched(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.register_hook(lambda inputs, outputs: log("hook", inputs[0]))
            return T.from_numpy(x.numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy() * 2)

    x = leaf(T, 3)
    Watched.apply(x).sum().backward()
    return [x.grad]


@program("HK-01")
def hook_of_the_root(T: Any, log: Log) -> Any:
    """A hook of the tensor that backward starts from."""
    Tanh = np_tanh(T)
    x = leaf(T, 3)
    loss = Tanh.apply(x).sum()
    loss.register_hook(lambda g: g * 4)
    loss.backward()
    return [x.grad]


@program("H20")
def emits_of_several_kinds(T: Any, log: Log) -> Any:
    """Values that change on their way back to the client."""
    Tanh = np_tanh(T)

    class Report(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(x.numpy() * 1)

        @staticmethod
        def backward(ctx, g):
            log("tensor", g)
            log("array", g.numpy() * 2)
            log("number", float(g.numpy().sum()))
            log("text", "report")
            log("none", None)
            log("list", [1, 2.5, True, "x", [None]])
            log("integers", np.arange(3))
            return g

    x = leaf(T, 3)
    Report.apply(Tanh.apply(x)).sum().backward()
    return [x.grad]
