"""What all optimisers make of a gradient before they use it."""

from __future__ import annotations

import pytest

import raygrad as rg
from raygrad.optim.optimizer import direction_of


@pytest.mark.parametrize(
    ("maximize", "weight_decay", "expected"), [(False, 0, 3.0), (True, 0, -3.0), (False, 0.5, 4.0), (True, 0.5, -2.0)]
)
def test_a_direction_is_the_gradient_turned_round_and_with_decay(
    maximize: bool, weight_decay: float, expected: float
) -> None:
    param, grad = rg.tensor([2.0]), rg.tensor([3.0])
    group = {"maximize": maximize, "weight_decay": weight_decay}
    assert direction_of(group, param, grad).tolist() == [expected]
