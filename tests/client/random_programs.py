"""Programs whose user code draws random numbers, for the tests that run them eagerly and in sessions (DR-15)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import raygrad as rg

SEEDS = (0, 1, 2**63 + 5)


class Inner(rg.autograd.Function):
    """Draws in forward and in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * rg.rand(3)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * rg.rand(3) * x


class Noisy(rg.autograd.Function):
    """Draws, by NumPy too, and applies another Function, in forward and in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        drawn = rg.generator().standard_normal(3, dtype=np.float32)
        return x * rg.rand(3) + Inner.apply(x) + rg.from_numpy(drawn) + rg.randn(3)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * rg.rand(3) * Inner.apply(x)


class Seeded(rg.autograd.Function):
    """Reseeds, draws, and applies another Function."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        rg.manual_seed(7)
        return x + rg.rand(3) + Inner.apply(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad + rg.rand(3)


class Hooked(rg.autograd.Function):
    """Registers hooks on its node that draw."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.register_prehook(lambda grads: tuple([grad * rg.rand(3) for grad in grads]))
        ctx.register_hook(lambda grads, _: tuple([grad * rg.rand(3) for grad in grads]))
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * rg.rand(3)


class Pushed(rg.autograd.Function):
    """Draws in jvp and in its vmap rule."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * rg.rand(3)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.noise = rg.rand(3).tolist()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * rg.rand(3) * rg.tensor(ctx.noise)

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return tangent * rg.rand(3) * rg.tensor(ctx.noise)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return Inner.apply(x) * rg.rand(3), in_dims[0]


def scaled(grad: Any) -> Any:
    """A hook that draws."""
    return grad * rg.rand(3)


def training(seed: int, *, create_graph: bool = False, retain_graph: bool | None = None, unneeded: bool = False) -> Any:
    """Interleaved draws of the program, applications, passes of several orders, hooks and reads."""
    rg.manual_seed(seed)
    x = rg.ones(3, requires_grad=True)
    x.register_hook(scaled)
    made: list[Any] = []
    for step in range(3):
        y = Noisy.apply(Noisy.apply(x))
        made.append(rg.rand(2))
        nobody_needs = Noisy.apply(x)
        if unneeded:
            made.append(nobody_needs)
        if step == 1:
            y.sum().item()
        y.register_hook(scaled)
        (grad,) = rg.autograd.grad(y.sum(), x, create_graph=create_graph, retain_graph=retain_graph)
        made += [y, grad]
        if create_graph and step < 2:
            (second,) = rg.autograd.grad((grad * grad).sum(), x, create_graph=True)
            (third,) = rg.autograd.grad((second * second).sum(), x)
            made += [second, third]
        loss = Noisy.apply(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        made.append(x.grad)
        x.grad = None
    return made


def checkpointed(seed: int, around: Callable[..., Any] = rg.checkpoint) -> Any:
    """Regions that are run again for backward, nested, with draws of the program in them."""
    rg.manual_seed(seed)
    x = rg.ones(3, requires_grad=True)

    def region(x: Any) -> Any:
        return Noisy.apply(x) * rg.rand(3) * Inner.apply(x)

    def outer(x: Any) -> Any:
        return around(region, Inner.apply(x)) * rg.rand(3)

    y = around(outer, x) + Noisy.apply(x)
    after = rg.rand(2)
    (y * y).sum().backward()
    return [y, after, x.grad, Noisy.apply(x)]


def plainly(function: Callable[..., Any], *args: Any) -> Any:
    """Call a region without checkpointing it."""
    return function(*args)


def phases(seed: int) -> Any:
    """Code of every other kind: hooks of nodes and accumulators, over several tensors, jvps, vmap rules, seeds."""
    rg.manual_seed(seed)
    x = rg.ones(3, requires_grad=True)
    w = rg.ones(3, requires_grad=True)
    seen: list[Any] = []
    w.register_post_accumulate_grad_hook(lambda leaf: seen.append(rg.rand(3)))
    rg.autograd.graph.register_multi_grad_hook((x, w), lambda grads: rg.emit("drawn", rg.rand(3)))
    y = Hooked.apply(x) * Seeded.apply(w) * Seeded.apply(w)
    y.grad_fn.register_prehook(lambda grads: tuple([grad * rg.rand(3) for grad in grads]))
    y.sum().backward()
    with rg.autograd.forward_ad.dual_level():
        dual = Pushed.apply(rg.autograd.forward_ad.make_dual(x.detach(), rg.ones(3)))
        _, tangent = rg.autograd.forward_ad.unpack_dual(dual)
    batch = rg.vmap(Pushed.apply)(rg.ones((2, 3)))
    return [y, x.grad, w.grad, *seen, tangent, batch, rg.rand(2), Pushed.apply(x)]


def compiled(seed: int, compile_step: Callable[[Any], Any] = lambda step: step, *, reseeds: bool = False) -> Any:
    """A step that is compiled and called between draws, applications and seeds of the program."""
    rg.manual_seed(seed)
    w = rg.ones(3, requires_grad=True)
    w.register_hook(scaled)

    def step(x: Any) -> Any:
        if reseeds:
            rg.manual_seed(3)
        y = Noisy.apply(Noisy.apply(w * x + rg.rand(3)))
        Noisy.apply(y)
        (grad,) = rg.autograd.grad((y * y).sum(), w, create_graph=True)
        (second,) = rg.autograd.grad((grad * grad).sum(), w)
        return y.detach(), grad.detach(), second.detach()

    called, made = compile_step(step), []
    for number in range(5):
        made.append(rg.rand(2))
        made.extend(called(rg.full((3,), float(number + 1))))
        if number == 2:
            made.append(Noisy.apply(w))
        if number == 3:
            rg.manual_seed(9)
    return [*made, Noisy.apply(w)]


def bits(program: Callable[..., Any], *args: Any, **named: Any) -> list[bytes]:
    """Return the bits of what a program returns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a cycle that create_graph makes
        return [tensor.detach().numpy().tobytes() for tensor in program(*args, **named)]
