"""Ensembles whose branches sleep, of which some take longer than predicted: what the tests of revised plans share."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from raygrad.autograd.functions.function import Function
from raygrad.autograd.tensor.tensor import Tensor


class Branch(Function):
    """Sleeps as long as its operand says; returns the next number."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        time.sleep(float(x.numpy()[0]))
        return Tensor(np.array([0.0, x.numpy()[1] + 1, 0.0, 0.0]))


def submitted(session: Any, graphs: Any, seconds: list[float]) -> tuple[int, list[int]]:
    """Submit an ensemble whose branches take so long; return its run and the values of its branches."""
    name = session.learn(Branch)
    g = graphs(len(seconds))
    made = [g.call(name, number) for number in range(len(seconds))]
    for value in made:  # each branch is awaited on the other worker, so that it is a segment of its own
        for worker in range(2):
            g.mul(value, value, pin=worker)
    g.keep(*made)
    return session.submit(g.graph(), *[np.array([one, k, 0.0, 0.0]) for k, one in enumerate(seconds)]), made


def numbers(session: Any, run: int, values: list[int]) -> list[int]:
    """Return the numbers that branches have returned, or what was computed of them."""
    return [int(session.driver.read(run, value)[1]) for value in values]
