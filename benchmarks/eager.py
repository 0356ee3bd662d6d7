"""What one node costs without a session: forward and backward of chains of 500 and 10,000 nodes over four numbers."""

# pyright: reportMissingImports=false, reportIncompatibleMethodOverride=false

# pyright: reportUntypedBaseClass=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import json
import operator
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import Result, Subject, compare, elsewhere, per_unit

import raygrad as rg

LENGTH = 500
LONG = 10_000
TIMES = 8
"""How often a chain runs in one measurement: what collects garbage before it leaves the caches cold."""
START = np.linspace(0.1, 0.9, 4)

# ---- a custom Function: sin, its input saved for backward ----------------------------------------------------------


class SinArrays(rg.autograd.Function):
    """In NumPy."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return rg.from_numpy(np.sin(x.numpy()))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return rg.from_numpy(grad.numpy() * np.cos(x.numpy()))


class SinTensors(rg.autograd.Function):
    """In operations of raygrad."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return rg.sin(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * rg.cos(x)


class TorchSinTensors(torch.autograd.Function):
    """In operations of torch."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.cos(x)


class TorchSinArrays(torch.autograd.Function):
    """In NumPy, under torch."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.sin(x.numpy()))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(grad.numpy() * np.cos(x.numpy()))


def custom_chain(lib, function):
    """Forward through the chain and back."""
    x = lib.tensor(START, requires_grad=True)
    y = x
    for _ in range(LENGTH):
        y = function.apply(y)
    y.backward(lib.ones(4, dtype=lib.float64))
    return x.grad


# ---- nodes of two operands -----------------------------------------------------------------------------------------


def product_of(lib):
    """Return a custom Function of two arguments, in operations of a library."""

    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y, grad * x

    return Product.apply


def of_two(lib, step, length, second):
    """Forward through a chain of nodes of two operands and back. The second operand is a leaf, a constant, or the first
    one again."""
    x = lib.tensor(START, requires_grad=True)
    other = lib.tensor(START + 0.5, requires_grad=second == "leaf")
    y = x
    for _ in range(length):
        y = step(y, y if second == "itself" else other)
    y.backward(lib.ones(4, dtype=lib.float64))
    return x.grad


STEPS = {
    "custom Function": (product_of, "<= 0.8 x torch"),
    "mul": (lambda lib: operator.mul, "<= 1.1 x torch"),
    "add": (lambda lib: operator.add, "<= 1.1 x torch"),
}
"""Per name, what makes the step of a chain for a library, and the aim."""


def subjects_of_two(name: str, length: int, second: str, nodes: int = LENGTH * TIMES) -> list[Subject]:
    """Return torch and raygrad with a chain of nodes of two operands; a measurement is of `nodes` nodes."""
    make, aim = STEPS[name]
    times = nodes // length

    def chains_in(lib: Any) -> Callable[[], float]:
        step = make(lib)
        return per_unit(lambda: [of_two(lib, step, length, second) for _ in range(times)], length * times)

    return [Subject("torch", chains_in(torch)), Subject("raygrad", chains_in(rg), "torch", aim)]


def results_of_two(rounds: int) -> list[Result]:
    """Measure nodes of two operands, and chains of different lengths beside each other."""
    found: list[Result] = []
    for name in STEPS:
        for second in ("leaf", "constant", "itself"):
            work = f"eager {name} of two operands, the second {second}, {LENGTH} nodes | node"
            found += compare(work, subjects_of_two(name, LENGTH, second), rounds)
    for name in STEPS:
        torch_short, short = subjects_of_two(name, LENGTH, "leaf", LONG)
        torch_long, long = subjects_of_two(name, LONG, "leaf", LONG)
        subjects = [
            Subject(f"torch, {LENGTH}", torch_short.once),
            Subject(f"torch, {LONG}", torch_long.once, f"torch, {LENGTH}"),
            Subject(f"raygrad, {LENGTH}", short.once),
            Subject(f"raygrad, {LONG}", long.once, f"raygrad, {LENGTH}", "<= 1.2 x that at 500"),
        ]
        found += compare(f"eager {name} of two operands, short and long chains | node", subjects, rounds)
    return found


# ---- built-in operations -------------------------------------------------------------------------------------------


def builtin_chain(lib):
    """Two operations a link: one with a number, one without."""
    x = lib.tensor(START, requires_grad=True)
    y = x
    for _ in range(LENGTH // 2):
        y = (y * 1.01).sin()
    y.backward(lib.ones(4, dtype=lib.float64))
    return x.grad


# ---- HIPS autograd, in a process of its own ------------------------------------------------------------------------


@contextmanager
def hips() -> Generator[dict[str, Subject]]:
    """Yield subjects that ask `hips.py`; it has to start outside this repository, where `autograd` is a room."""
    script = Path(__file__).with_name("hips.py").resolve()
    with elsewhere():
        child = subprocess.Popen(
            [sys.executable, str(script), str(LENGTH), str(TIMES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    assert child.stdin is not None
    assert child.stdout is not None
    asks, answers = child.stdin, child.stdout

    def ask(what: str) -> float:
        asks.write(what + "\n")
        asks.flush()
        return json.loads(answers.readline())

    try:
        yield {what: Subject("HIPS autograd", lambda what=what: ask(what)) for what in ("custom", "builtin")}
    finally:
        asks.close()  # it ends when nobody asks any more
        child.wait(timeout=10)
        answers.close()


def chains(chain: Callable[..., Any], *of: Any) -> Callable[[], float]:
    """Return what measures a chain, per node."""

    def several() -> None:
        for _ in range(TIMES):
            chain(*of)

    return per_unit(several, LENGTH * TIMES)


def results(quick: bool) -> list[Result]:
    """Measure everything of this file."""
    torch.set_num_threads(1)
    rounds = 15 if quick else 25
    with hips() as other:
        custom = [
            Subject("torch", chains(custom_chain, torch, TorchSinTensors)),
            Subject("torch, NumPy inside", chains(custom_chain, torch, TorchSinArrays)),
            other["custom"],
            Subject(
                "raygrad, NumPy inside",
                chains(custom_chain, rg, SinArrays),
                "torch",
                "<= 0.7 x torch",
            ),
            Subject("raygrad", chains(custom_chain, rg, SinTensors), "torch", "<= 0.7 x torch"),
        ]
        builtin = [
            Subject("torch", chains(builtin_chain, torch)),
            other["builtin"],
            Subject("raygrad", chains(builtin_chain, rg), "torch", "<= 1.2 x torch"),
        ]
        return [
            *compare("eager custom Function, 4 float64, forward + backward | node", custom, rounds),
            *compare("eager built-in operations (mul, sin), 4 float64, forward + backward | node", builtin, rounds),
            *results_of_two(rounds),
        ]
