"""`raygrad demo`: a script that trains a small network of user-written Functions, run as `raygrad run` runs scripts.

It names no address: the command line says where it runs. The losses have the same digits everywhere.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import raygrad as rg

STEPS, BRANCHES, SAMPLES, HIDDEN = 60, 4, 512, 32


class Dense(rg.autograd.Function):
    """`tanh(x @ weight + bias)` in plain NumPy, with its derivative."""

    @staticmethod
    def forward(ctx: Any, x: rg.Tensor, weight: rg.Tensor, bias: rg.Tensor) -> rg.Tensor:
        y = rg.from_numpy(np.tanh(x.numpy() @ weight.numpy() + bias.numpy()))
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: rg.Tensor) -> tuple[rg.Tensor, ...]:
        x, weight, y = (tensor.numpy() for tensor in ctx.saved_tensors)
        inner = grad.numpy() * (1.0 - y**2)
        return rg.from_numpy(inner @ weight.T), rg.from_numpy(x.T @ inner), rg.from_numpy(inner.sum(axis=0))


def spirals() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return points on two spirals, and 1 or -1 for the spiral that each is on."""
    random = np.random.default_rng(0)
    sign = np.where(np.arange(SAMPLES) % 2, 1.0, -1.0)
    along = np.sqrt(random.random(SAMPLES)) * 2.5 * np.pi
    points = sign[:, None] * along[:, None] * np.stack([np.cos(along), np.sin(along)], axis=1) / 8.0
    return points + random.normal(0.0, 0.02, points.shape), sign[:, None]


def main() -> None:
    """Train, and print what became of it."""
    points, sides = spirals()
    random = np.random.default_rng(1)
    shapes = ((2, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,), (HIDDEN, 1), (1,))
    parameters = [rg.tensor(random.normal(0.0, 1.0 / shape[0] ** 0.5, shape), requires_grad=True) for shape in shapes]
    parts = np.array_split(np.arange(SAMPLES), BRANCHES)
    batches = [(rg.tensor(points[rows]), rg.tensor(sides[rows])) for rows in parts]
    started = time.perf_counter()
    with rg.Session() as session:
        print(f"Training a network of {sum(one.numel() for one in parameters):,} parameters on {session.address}, "
              f"in {session.workers} {'worker' if session.workers == 1 else 'workers'}.")  # fmt: skip
        optimizer = rg.optim.Adam(parameters, lr=0.02)
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            losses: list[rg.Tensor] = []
            for x, side in batches:  # branches that workers run side by side
                for weight, bias in zip(parameters[::2], parameters[1::2], strict=True):
                    x = Dense.apply(x, weight, bias)
                losses.append(((x - side) ** 2).mean())
            loss = sum(losses[1:], losses[0]) / BRANCHES
            loss.backward()
            optimizer.step()
            if step % 20 == 0 or step == 1:
                print(f"  step {step:2}: loss {loss.item():.6f}")
    print(f"It took {time.perf_counter() - started:.1f} s.")


if __name__ == "__main__":
    main()
