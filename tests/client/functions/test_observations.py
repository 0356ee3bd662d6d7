"""What a session remembers of user code that the program no longer has is bounded."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import raygrad as rg
from raygrad.client.functions.observations import KEPT, RecentTable


def test_a_table_forgets_its_first_entries() -> None:
    table = RecentTable[int, int]()
    for number in range(KEPT + 2):
        table[number] = number
    assert len(table) == KEPT
    assert 1 not in table
    assert table[KEPT + 1] == KEPT + 1


@pytest.mark.slow
def test_each_step_with_new_code_adds_little(session: Any) -> None:
    """Code that captures another number at each step is new code, with costs, signatures and programs of its own."""
    rate = [0.0]

    class Scales(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * rate[0]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * rate[0]

    x: Any = rg.ones(4, requires_grad=True)

    def steps(count: int) -> int:
        for _ in range(count):
            rate[0] += 1.0
            x.grad = None
            Scales.apply(Scales.apply(x)).sum().backward()
            gradient: Any = x.grad
            assert gradient.tolist() == [rate[0] ** 2] * 4
        gc.collect()
        return len(gc.get_objects())

    with session:
        before = steps(300)
        assert (steps(100) - before) / 100 < 150
