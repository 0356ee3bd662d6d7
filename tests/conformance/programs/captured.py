"""Tensors, arrays and other values that Functions and hooks capture (H16)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .functions import np_tanh
from .registry import Log, constant, leaf, program, values

TABLE = values(4, seed=11)
OPTIONS = {"gain": 1.5, "name": "table"}


def smooth(a: Any) -> Any:
    return (a + np.roll(a, 1)) / 2


@program("H16", tags={"numpy"})
def tensor_in_a_closure(T: Any, log: Log) -> Any:
    """A captured tensor that does not arrive, forward or backward."""
    weights = constant(T, 4)

    class Weighted(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(x.numpy() * weights.numpy())

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy() * weights.numpy())

    x = leaf(T, 4)
    y = Weighted.apply(x)
    y.sum().backward()
    return [y, x.grad]


@program("H16", tags={"numpy"})
def pending_tensor_in_a_closure(T: Any, log: Log) -> Any:
    """A captured tensor that is itself a result of the graph."""
    Tanh = np_tanh(T)
    x = leaf(T, 4)
    middle = Tanh.apply(x).detach()

    class Weighted(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(x.numpy() * middle.numpy())

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy() * middle.numpy())

    y = Weighted.apply(x * 2)
    y.sum().backward()
    return [y, x.grad]


@program("H16", tags={"numpy"})
def parameter_in_a_closure(T: Any, log: Log) -> Any:
    """Gradient that flows to a captured leaf: none may."""
    w = leaf(T, 4, seed=3)

    class Weighted(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(x.numpy() * w.numpy())

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy() * w.detach().numpy())

    x = leaf(T, 4)
    y = Weighted.apply(x)
    (y * w.detach()).sum().backward()
    return [y, x.grad, w.grad]


@program("H16", "H9", tags={"numpy"})
def globals_of_the_module(T: Any, log: Log) -> Any:
    """A global array, a global dict and a helper function of the module, none of which a worker can import."""

    class Lookup(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(smooth(x.numpy() * TABLE) * OPTIONS["gain"])

        @staticmethod
        def backward(ctx, g):
            h = g.numpy() * OPTIONS["gain"]
            return T.from_numpy(TABLE * (h + np.roll(h, -1)) / 2)

    x = leaf(T, 4)
    y = Lookup.apply(x)
    (y * y).sum().backward()
    return [y, x.grad]


@program("H16", "H9", tags={"numpy"})
def captured_array_replaced_between_steps(T: Any, log: Log) -> Any:
    """The first step's capture used at the second: a Function's identity without what it captures."""
    x = leaf(T, 4)
    results = []
    for seed in range(3):
        weights = values(4, seed=seed + 20)

        class Weighted(T.autograd.Function):
            @staticmethod
            def forward(ctx, x, weights=weights):
                ctx.weights = weights
                return T.from_numpy(x.numpy() * weights)

            @staticmethod
            def backward(ctx, g):
                return T.from_numpy(g.numpy() * ctx.weights)

        x.grad = None
        y = Weighted.apply(x)
        y.sum().backward()
        results.append([y, x.grad])
    return results


@program("H16", "H9")
def hook_captures_a_tensor(T: Any, log: Log) -> Any:
    """A hook's captured tensor and array, another at each pass."""
    x = leaf(T, 4)
    y = x * 2
    loss = (y * y).sum()
    for seed in range(3):
        scale, shift = constant(T, 4, seed=seed), values(4, seed=seed + 9)
        handle = y.register_hook(lambda g, scale=scale, shift=shift: g * scale + T.from_numpy(shift))
        loss.backward(retain_graph=True)
        handle.remove()
    return [x.grad]


@program("H16")
def node_hooks_capture_a_result(T: Any, log: Log) -> Any:
    """A node hook that uses a value which the graph computes."""
    Tanh = np_tanh(T)
    x = leaf(T, 4)
    y = Tanh.apply(x)
    z = Tanh.apply(y)
    scale = y.detach()
    z.grad_fn.register_prehook(lambda grads: (grads[0] * scale,))
    z.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + scale,))
    z.sum().backward()
    return [z, x.grad]


@program("H16", "DR-13", tags={"numpy"})
def constant_of_the_class(T: Any, log: Log) -> Any:
    """Attributes of the class that code reads through its own name."""

    class Scaled(T.autograd.Function):
        factor = 2.5
        offsets = (1.0, 2.0, 3.0, 4.0)

        @staticmethod
        def shifted(a):
            return a * Scaled.factor + np.asarray(Scaled.offsets)

        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(Scaled.shifted(x.numpy()))

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy() * Scaled.factor)

    x = leaf(T, 4)
    y = Scaled.apply(Scaled.apply(x))
    y.sum().backward()
    return [y, x.grad]


@program("H16", "H17", tags={"numpy"})
def large_captured_array(T: Any, log: Log) -> Any:
    """A captured array that is too large to travel inside a record."""
    matrix = values(150, 150, seed=30)

    class Project(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(matrix @ x.numpy())

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(matrix.T @ g.numpy())

    x = leaf(T, 150)
    y = Project.apply(Project.apply(x) / 100)
    y.sum().backward()
    return [y, x.grad]
