"""DR, continued: passes that user code runs by itself, and the `.grad` of leaves that they add to (H16)."""

from __future__ import annotations

from typing import Any

from ..programs.functions import square
from ..programs.registry import Log, constant, leaf, program


def reentrant(T: Any) -> Any:
    """A checkpoint as it is written by hand: backward runs a function again, and a pass of its own through it."""

    class Again(T.autograd.Function):
        @staticmethod
        def forward(ctx, run, x):
            ctx.run = run
            ctx.save_for_backward(x)
            with T.no_grad():
                return run(x)

        @staticmethod
        def backward(ctx, g):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with T.enable_grad():
                y = ctx.run(x)
            T.autograd.backward(y, g)
            return None, x.grad

    return Again


@program("H16", "DR-14", "EN-26")
def a_pass_in_a_backward_adds_to_captured_leaves(T: Any, log: Log) -> Any:
    """A gradient of the inner pass that stays on the worker, or comes in another order than the outer pass's."""
    w, v = leaf(T, 3, seed=1), leaf(T, 3, seed=2)

    class Layer(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * w.detach() + v.detach()

        @staticmethod
        def backward(ctx, g):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with T.enable_grad():
                y = (x * w + v).sin()
            y.backward(g, retain_graph=True)
            y.backward(g * 0.3)
            return x.grad

    x = leaf(T, 3)
    h = x * w / 3.0
    for _ in range(3):
        h = Layer.apply(h) * v
    h.sum().backward()
    once = [w.grad.clone(), v.grad.clone()]
    Layer.apply(x).sum().backward()
    return [once, w.grad, v.grad, x.grad]


@program("H16", "DR-14", "FN-07")
def a_checkpoint_by_hand(T: Any, log: Log) -> Any:
    """Gradients of the parameters that a function holds, which came as an argument of a Function."""
    Again = reentrant(T)
    w, v = leaf(T, 3, seed=1), leaf(T, 3, seed=2)
    x = leaf(T, 3)
    y = Again.apply(lambda x: (x * w).sin() * v, x)
    z = Again.apply(lambda y: (y * v).exp() * w, y)
    z.sum().backward()
    return [x.grad, w.grad, v.grad, z]


@program("H16", "DR-14", "HK-01")
def a_pass_in_a_hook_adds_to_captured_leaves(T: Any, log: Log) -> Any:
    """What a hook on a tensor or a node adds to leaves, before and after what the pass adds."""
    w = leaf(T, 3, seed=1)
    x = leaf(T, 3)
    y = x * w
    z = square(T).apply(y)

    def on_tensor(g):
        with T.enable_grad():
            (w * w).sum().backward()
        return g * w.grad

    def on_node(inputs, outputs):
        with T.enable_grad():
            (w.sin() * outputs[0]).sum().backward()

    y.register_hook(on_tensor)
    z.grad_fn.register_hook(on_node)
    z.sum().backward()
    return [x.grad, w.grad]


@program("H16", "DR-14")
def a_pass_in_a_backward_adds_to_arguments(T: Any, log: Log) -> Any:
    """A leaf that is saved, captured, and in an object: one gradient, wherever it is met."""
    w = leaf(T, 3, seed=1)

    class Everywhere(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, w_, run):
            ctx.save_for_backward(x, w_)
            ctx.run = run
            return x * w_

        @staticmethod
        def backward(ctx, g):
            x, saved = ctx.saved_tensors
            with T.enable_grad():
                (saved * g).sum().backward()
                (w * w * g).sum().backward()
                ctx.run(x.detach()).sum().backward()
            return g * saved.grad, g * x, None

    x = leaf(T, 3)
    Everywhere.apply(x * 2.0, w, lambda x: (x * w).cos()).sum().backward()
    return [x.grad, w.grad]


@program("H16", "DR-14")
def the_gradient_of_a_captured_leaf_is_read(T: Any, log: Log) -> Any:
    """`.grad` of a captured leaf, which a worker has as it was when the pass came there."""
    w = leaf(T, 3, seed=1)

    class Reads(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log("forward", None if w.grad is None else w.grad.tolist())
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            return g * 2.0 if w.grad is None else g * w.grad

    x = leaf(T, 3)
    Reads.apply(x).sum().backward()
    (w * w).sum().backward()
    y = Reads.apply(x)
    y.register_hook(lambda g: g + w.grad)
    (w * 3.0).sum().backward()
    y.sum().backward()
    return [x.grad, w.grad]


@program("H16", "DR-14")
def the_gradient_of_a_captured_leaf_is_taken(T: Any, log: Log) -> Any:
    """A backward that takes what its pass added, and leaves the leaf's gradient as it found it, or replaces it."""
    w, v = leaf(T, 3, seed=1), leaf(T, 3, seed=2)

    class Takes(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            before, w.grad = w.grad, None
            with T.enable_grad():
                (w * w * g).sum().backward()
            found: Any = w.grad
            w.grad = before
            v.grad = found * 5.0
            return found

    x = leaf(T, 3)
    Takes.apply(x).sum().backward()
    first = [w.grad, v.grad]
    (w * v).sum().backward()
    Takes.apply(x).sum().backward()
    return [first, x.grad, w.grad, v.grad]


@program("H16", "DR-14", "H5")
def an_inner_pass_that_depends_on_data(T: Any, log: Log) -> Any:
    """A leaf to which some passes add, and some do not."""
    w = leaf(T, 3, seed=1)

    class Sometimes(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            if g.sum() > 0:
                with T.enable_grad():
                    (w * g).sum().backward()
            return g * 2.0

    x = leaf(T, 3)
    Sometimes.apply(x).sum().neg().backward()
    nothing = w.grad is None
    Sometimes.apply(x).sum().backward()
    something = w.grad.clone()
    Sometimes.apply(x).sum().neg().backward()
    return [nothing, something, w.grad, x.grad]


@program("H16", "DR-14", "EN-09", "BW-12", tags={"create_graph"})
def an_inner_pass_under_create_graph(T: Any, log: Log) -> Any:
    """The inner pass of a backward that is differentiated: it adds once, however often derivatives are taken."""
    w = leaf(T, 3, seed=1)

    class Adds(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with T.enable_grad():
                (w * w).sum().backward()
            return g * 3.0 * x * x

    x = leaf(T, 3)
    y = Adds.apply(x).sum()
    (gx,) = T.autograd.grad(y, x, create_graph=True)
    after_one = w.grad.clone()
    (gxx,) = T.autograd.grad((gx * gx).sum(), x)
    return [gx, gxx, after_one, w.grad]


@program("H16", "DR-14", "H8", tags={"trains"})
def training_through_a_checkpoint_by_hand(T: Any, log: Log) -> Any:
    """A step of an optimiser that goes by gradients which only inner passes add."""
    Again = reentrant(T)
    w, v = leaf(T, 3, seed=1), leaf(T, 3, seed=2)
    x = constant(T, 3).requires_grad_()
    optimizer = T.optim.SGD([w, v], lr=0.1, momentum=0.5)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        y = Again.apply(lambda x: (x * w).sin() + v, x)
        loss = (Again.apply(lambda y: y * v, y) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [losses, w, v]
