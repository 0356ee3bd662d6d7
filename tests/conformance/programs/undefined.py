"""Undefined gradients: None where a gradient never arrived."""

from __future__ import annotations

from typing import Any

from .functions import no_gradient, np_tanh
from .registry import Log, leaf, program


@program("H5", "BW-10")
def gradient_undefined(T: Any, log: Log) -> Any:
    """None that becomes zeros in `.grad`."""
    NoGradient = no_gradient(T)
    x = leaf(T, 3)
    NoGradient.apply(x).sum().backward()
    undefined = x.grad is None
    return [undefined, x.grad]


@program("H5", tags={"numpy"})
def gradient_undefined_for_one_input(T: Any, log: Log) -> Any:
    """None in one slot that takes the other's gradient away."""

    class Mask(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return T.from_numpy(x.numpy() * y.numpy())

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return T.from_numpy(g.numpy() * y.numpy()), None

    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    Mask.apply(x, y).sum().backward()
    return [x.grad, y.grad]


@program("H5", "EN-21")
def undefined_and_defined_gradients_meet(T: Any, log: Log) -> Any:
    """An undefined contribution added as zeros, or making the sum undefined."""
    NoGradient = no_gradient(T)
    x = leaf(T, 3)
    middle = x * 2
    y = NoGradient.apply(middle) + middle * 3 + NoGradient.apply(middle)
    y.sum().backward()
    return [y, x.grad]


@program("H5", "BW-10")
def undefined_gradient_is_materialised_behind(T: Any, log: Log) -> Any:
    """A Function behind an undefined gradient: it runs, and sees zeros."""
    NoGradient, Tanh = no_gradient(T), np_tanh(T)
    x = leaf(T, 3)
    NoGradient.apply(Tanh.apply(x)).sum().backward()
    return [x.grad]


@program("H5", "CX-20", tags={"numpy"})
def undefined_gradient_reaches_backward(T: Any, log: Log) -> Any:
    """A Function behind an undefined gradient that asked for None, and gives None on."""
    NoGradient = no_gradient(T)

    class Pass(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return T.from_numpy(x.numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            log("gradient", g)
            return None if g is None else T.from_numpy(g.numpy() * 2)

    x = leaf(T, 3)
    NoGradient.apply(Pass.apply(x)).sum().backward()
    return [x.grad]


@program("H5", "BW-10")
def undefined_gradient_passes_built_in_ops(T: Any, log: Log) -> Any:
    """Built-in ops that make zeros of an undefined gradient."""
    NoGradient = no_gradient(T)
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    NoGradient.apply((x.exp() * y).sum(0) + x[0]).backward()
    return [x.grad, y.grad]


@program("H5", "EN-14", "BW-10")
def grad_of_an_undefined_gradient(T: Any, log: Log) -> Any:
    """grad() that gives zeros for an input whose gradient is undefined."""
    NoGradient = no_gradient(T)
    x, y, z = leaf(T, 3), leaf(T, 3, seed=1), leaf(T, 3, seed=2)
    loss = (NoGradient.apply(x) + y * 2).sum()
    return list(T.autograd.grad(loss, [x, y, z], allow_unused=True))


@program("EN-14", "H5", errors=RuntimeError)
def grad_of_an_undefined_gradient_not_allowed(T: Any, log: Log) -> Any:
    """grad() that does not tell that an input's gradient is undefined."""
    NoGradient = no_gradient(T)
    x = leaf(T, 3)
    return T.autograd.grad(NoGradient.apply(x).sum(), x)


@program("HK-04", "H5")
def hooks_of_undefined_gradients(T: Any, log: Log) -> Any:
    """Hooks that are not called where the gradient is undefined, or get zeros."""
    NoGradient, Tanh = no_gradient(T), np_tanh(T)
    x = leaf(T, 3)
    middle = Tanh.apply(x)
    middle.register_hook(lambda g: log("middle", g))
    middle.grad_fn.register_prehook(lambda grads: log("before", grads[0]))
    NoGradient.apply(middle).sum().backward()
    return [x.grad]


@program("H5", "EN-07")
def defined_gradient_after_an_undefined_one(T: Any, log: Log) -> Any:
    """`.grad` that stays None, or was made zeros, across passes."""
    NoGradient = no_gradient(T)
    x = leaf(T, 3)
    NoGradient.apply(x).sum().backward()
    (x * 2).sum().backward()
    NoGradient.apply(x).sum().backward()
    return [x.grad]


@program("H5", "H3", tags={"numpy"})
def gradient_undefined_at_one_step_only(T: Any, log: Log) -> Any:
    """What one backward returned taken for granted at the next."""

    class PositiveOnly(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return T.from_numpy(x.numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            return T.from_numpy(g.numpy() * 2) if g.numpy().sum() > 0 else None

    x = leaf(T, 3)
    results = []
    for sign in (1.0, -1.0, 1.0):
        x.grad = None
        PositiveOnly.apply(x).backward(T.tensor([sign, sign, sign], dtype=T.float64))
        results.append(x.grad)
    return results


@program("H5", "EN-14")
def inputs_unused(T: Any, log: Log) -> Any:
    """grad() of an input that the output does not depend on."""
    x, y = leaf(T, 3), leaf(T, 3, seed=1)
    loss = (x * x).sum()
    return list(T.autograd.grad(loss, [x, y], allow_unused=True))


@program("H5", tags={"trains"})
def parameter_without_a_gradient(T: Any, log: Log) -> Any:
    """An optimiser that moves a parameter whose gradient is undefined."""
    NoGradient = no_gradient(T)
    used, unused = leaf(T, 3), leaf(T, 3, seed=1)
    optimizer = T.optim.SGD([used, unused], lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        loss = (used * used + NoGradient.apply(unused)).sum()
        loss.backward()
        optimizer.step()
    return [used, unused, unused.grad]
