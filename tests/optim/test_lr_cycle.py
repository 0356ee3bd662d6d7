"""One rise and fall of the learning rate; its numbers beside PyTorch's are in `test_lr_scheduler`."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.optim.lr_scheduler import OneCycleLR


def optimizer(name: str = "SGD") -> Any:
    return getattr(rg.optim, name)([rg.ones(1)], lr=1.0)


def test_the_rate_rises_and_falls_and_the_momentum_goes_the_other_way() -> None:
    one = optimizer()
    schedule = OneCycleLR(one, 1.0, total_steps=10, pct_start=0.5)
    seen: list[tuple[float, float]] = []
    for _ in range(10):
        seen.append((one.param_groups[0]["lr"], one.param_groups[0]["momentum"]))
        one.step()
        schedule.step()
    rates, momenta = zip(*seen, strict=True)
    assert max(rates) == rates[4] == 1.0
    assert list(rates[:5]) == sorted(rates[:5])
    assert momenta[4] == min(momenta) == 0.85
    with pytest.raises(ValueError, match=r"Tried to step 11 times\. The specified number of total steps is 10"):
        schedule.step()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "total_steps OR"),
        ({"total_steps": 0}, "positive integer total_steps"),
        ({"epochs": 2, "steps_per_epoch": 0}, "positive integer steps_per_epoch"),
        ({"total_steps": 5, "pct_start": 2}, "between 0 and 1 pct_start"),
        ({"total_steps": 5, "anneal_strategy": "no"}, "'cos' or 'linear'"),
        ({"total_steps": 5, "max_momentum": [0.9, 0.9]}, "Expected 1 values for momentum"),
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OneCycleLR(optimizer(), 1.0, **options)


def test_an_optimizer_without_momentum_is_refused() -> None:
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        OneCycleLR(optimizer("Adagrad"), 1.0, total_steps=5)
    OneCycleLR(optimizer("Adagrad"), 1.0, total_steps=5, cycle_momentum=False)
