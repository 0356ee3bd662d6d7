"""Training for several steps: parameters, optimiser state and gradients as cells (H8)."""

from __future__ import annotations

from typing import Any

from .errors import Refused
from .functions import np_linear, np_tanh
from .registry import Log, constant, leaf, program

TRAINS = {"trains"}


@program("H8", tags=TRAINS)
def plain_gradient_descent(T: Any, log: Log) -> Any:
    """Parameters that do not move, or move by an old gradient, when nothing is read in between."""
    x, target = constant(T, 12, 3), constant(T, 12, seed=5)
    w = leaf(T, 3)
    optimizer = T.optim.SGD([w], lr=0.05)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((x @ w - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return [w, w.grad, losses]


@program("H8", "H14", tags={"trains", "read_between"})
def network_with_momentum(T: Any, log: Log) -> Any:
    """Optimiser state lost between steps; the loss is read at each, and has to fall."""
    Linear, Tanh = np_linear(T), np_tanh(T)
    x, target = constant(T, 16, 4), constant(T, 16, 1, seed=5)
    first, second = leaf(T, 4, 8), leaf(T, 8, 1, seed=1)
    optimizer = T.optim.SGD([first, second], lr=0.02, momentum=0.9)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        error = Linear.apply(Tanh.apply(Linear.apply(x, first)), second) - target
        loss = (error * error).mean()
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return [losses, losses[-1] < losses[0], first, second]


@program("H8", "H9", tags=TRAINS)
def decayed_learning_rate(T: Any, log: Log) -> Any:
    """A learning rate that stays the first step's, because the plan is a cached one."""
    Linear = np_linear(T)
    x, w = constant(T, 6, 3), leaf(T, 3, 2, dtype="float64")
    optimizer = T.optim.SGD([w], lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        (Linear.apply(x, w) ** 2).mean().backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
    return [w, optimizer.param_groups[0]["lr"]]


@program("H8", tags=TRAINS)
def weight_decay_and_nesterov(T: Any, log: Log) -> Any:
    """The optimiser's other terms, in float32."""
    w, b = leaf(T, 3, 2, dtype="float32"), leaf(T, 2, seed=1, dtype="float32")
    x = constant(T, 7, 3, dtype="float32")
    optimizer = T.optim.SGD([w, b], lr=0.1, momentum=0.8, weight_decay=0.01, nesterov=True)
    for _ in range(4):
        optimizer.zero_grad()
        ((x @ w + b).tanh() ** 2).sum().backward()
        optimizer.step()
    return [w, b]


@program("H8", "EN-07", tags=TRAINS)
def gradients_accumulate_over_micro_batches(T: Any, log: Log) -> Any:
    """`.grad` cleared between passes that belong to one step."""
    Linear = np_linear(T)
    x, w = constant(T, 12, 3), leaf(T, 3, 1)
    optimizer = T.optim.SGD([w], lr=0.05, momentum=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        for part in range(3):
            (Linear.apply(x[part * 4 : part * 4 + 4], w) ** 2).mean().backward()
        optimizer.step()
    return [w, w.grad]


@program("H8", tags=TRAINS)
def batch_split_into_branches(T: Any, log: Log) -> Any:
    """The demo's shape: branches of one batch that meet in shared parameters."""
    Linear, Tanh = np_linear(T), np_tanh(T)
    x, labels = constant(T, 24, 5, dtype="float32"), T.arange(24) % 3
    first, second = leaf(T, 5, 7, dtype="float32"), leaf(T, 7, 3, seed=1, dtype="float32")
    optimizer = T.optim.SGD([first, second], lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        parts = []
        for k in range(4):
            rows = slice(6 * k, 6 * k + 6)
            logits = Linear.apply(Tanh.apply(Linear.apply(x[rows], first)), second).log_softmax(1)
            parts.append(-logits[T.arange(6), labels[rows]].mean())
        loss: Any = sum(parts) / 4
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return [losses, first, second]


@program("H8", "HK-01", tags=TRAINS)
def gradients_clipped_by_hooks(T: Any, log: Log) -> Any:
    """Hooks of parameters that run at the first step only."""
    x, w = constant(T, 6, 3), leaf(T, 3)
    w.register_hook(lambda g: g.clamp(-0.1, 0.1))
    w.register_hook(lambda g: log("clipped", g))
    optimizer = T.optim.SGD([w], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        (x @ w).exp().sum().backward()
        optimizer.step()
    return [w]


@program("H8", "EN-30", tags={"read_between"})
def gradient_descent_in_place(T: Any, log: Log) -> Any:
    """Parameters written in place under no_grad: the idiom without an optimiser."""
    x, w = constant(T, 6, 3), leaf(T, 3)
    losses = []
    for _ in range(3):
        loss = ((x @ w) ** 2).mean()
        losses.append(loss.item())
        loss.backward()
        with T.no_grad():
            w -= 0.1 * w.grad  # pyright: ignore[reportOperatorIssue]
        w.grad = None
    return [losses, w, w.is_leaf, w.requires_grad]


@program("H8", "H21")
def failure_in_the_third_of_five_steps(T: Any, log: Log) -> Any:
    """Parameters that a failed step, or one recorded after it, has moved."""

    class Picky(T.autograd.Function):
        @staticmethod
        def forward(ctx, w, step):
            if step.numpy() == 2:
                raise Refused("no third step", 3)
            ctx.save_for_backward(w)
            return T.from_numpy(w.numpy() ** 2)

        @staticmethod
        def backward(ctx, g):
            (w,) = ctx.saved_tensors
            return T.from_numpy(2 * w.numpy() * g.numpy()), None

    w = leaf(T, 4)
    optimizer = T.optim.SGD([w], lr=0.1, momentum=0.9)
    code = None
    try:
        for step in range(5):
            optimizer.zero_grad()
            Picky.apply(w, T.tensor(step)).sum().backward()
            optimizer.step()
        w.detach().numpy()
    except Refused as refused:
        code = refused.code
    return [code, w]
