"""Values read between forward and backward: the commonest loop of all, `print(loss); loss.backward()` (H14)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .functions import np_linear, np_scale, np_square, np_tanh
from .registry import Log, leaf, program

READS = {"read_between"}


@program("H14", tags=READS)
def loss_is_printed(T: Any, log: Log) -> Any:
    """A context of an earlier submission that is gone when backward asks for it."""
    Tanh = np_tanh(T)
    x = leaf(T, 4)
    loss = Tanh.apply(x * 2).sum()
    print(float(loss))
    loss.backward()
    return [loss, x.grad]


@program("H14", tags=READS)
def item_of_the_loss(T: Any, log: Log) -> Any:
    """The same with `.item()`, twice, on a graph that is continued."""
    Tanh, Square = np_tanh(T), np_square(T)
    x = leaf(T, 4)
    middle = Tanh.apply(x)
    before = middle.sum().item()
    loss = Square.apply(middle).sum()
    after = loss.item()
    loss.backward()
    return [before, after, x.grad]


@program("H14", tags=READS)
def branch_on_a_value(T: Any, log: Log) -> Any:
    """A graph that depends on a value of its first half."""
    Tanh, Square = np_tanh(T), np_square(T)
    x = leaf(T, 4)
    y = Tanh.apply(x)
    y = Square.apply(y) if y.sum() > 0 else Tanh.apply(y)
    y = y * 3 if bool((y > 0.5).any()) else y
    y.sum().backward()
    return [y, x.grad]


@program("H14", "EN-33", tags=READS)
def array_taken_to_numpy_and_back(T: Any, log: Log) -> Any:
    """A value that the client computed from another, as a constant of the graph."""
    Tanh = np_tanh(T)
    x = leaf(T, 4)
    y = Tanh.apply(x)
    weights = T.from_numpy(np.argsort(y.detach().numpy()).astype(np.float64))
    loss = (y * weights).sum()
    loss.backward()
    return [weights, loss, x.grad]


@program("H14", tags=READS)
def loop_until_small(T: Any, log: Log) -> Any:
    """A number of nodes that depends on values."""
    Scale = np_scale(T)
    x = leaf(T, 4)
    y, steps = x, 0
    while y.abs().max().item() > 0.1:
        y, steps = Scale.apply(y, 0.5), steps + 1
    y.sum().backward()
    return [steps, y, x.grad]


@program("H14", tags=READS)
def values_as_python_numbers(T: Any, log: Log) -> Any:
    """Formatting, `tolist`, `int` and `len` of values that are pending."""
    Square = np_square(T)
    x = leaf(T, 3)
    y = Square.apply(x)
    text = f"{y.sum().item():.6f} {y.tolist()!r:.8} {int(y.sum())} {len(y)}"
    y.sum().backward()
    return [text, y.tolist(), x.grad]


@program("H14", "EN-07", tags=READS)
def gradient_read_between_two_passes(T: Any, log: Log) -> Any:
    """A `.grad` that was read and then accumulates further."""
    Square = np_square(T)
    x = leaf(T, 3)
    loss = Square.apply(x).sum()
    value = loss.item()
    loss.backward(retain_graph=True)
    norm = float((x.grad * x.grad).sum())
    loss.backward()
    return [value, norm, x.grad]


@program("H14", tags=READS)
def values_read_in_another_order(T: Any, log: Log) -> Any:
    """Values of several submissions, read last to first."""
    Linear, Tanh = np_linear(T), np_tanh(T)
    x, w = leaf(T, 5, 5), leaf(T, 5, 5, seed=1)
    history = []
    y = x
    for _ in range(4):
        y = Tanh.apply(Linear.apply(y, w))
        history.append(y)
    sums = [float(h.sum()) for h in reversed(history)]
    history[-1].sum().backward()
    return [sums, history, x.grad, w.grad]


@program("H14", tags=READS)
def one_half_read_the_other_not(T: Any, log: Log) -> Any:
    """A pass over a graph of which a part ran before and a part did not."""
    Tanh = np_tanh(T)
    x, y = leaf(T, 4), leaf(T, 4, seed=1)
    left, right = Tanh.apply(x), Tanh.apply(y)
    maximum = left.max().item()
    loss = (left * right * maximum).sum()
    loss.backward()
    return [maximum, loss, x.grad, y.grad]


@program("H1", "H14", tags=READS, rtol64=1e-5)
def layout_survives_a_read(T: Any, log: Log) -> Any:
    """A transposed value that comes back from the client, or from an earlier submission, in another layout."""
    x, w = leaf(T, 21, 34, dtype="float32"), leaf(T, 34, 27, seed=1, dtype="float32")
    y = (x @ w).T
    total = float(y.sum())
    sums = y.sum(1)
    sums.exp().mean().backward()
    return [total, sums, x.grad, w.grad]
