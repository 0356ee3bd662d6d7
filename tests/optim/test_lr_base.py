"""What schedules of learning rates have in common."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.optim.lr_base import LRScheduler, per_group


class Halves(LRScheduler):
    def get_lr(self) -> list[float]:
        return [base / 2**self.last_epoch for base in self.base_lrs]


def optimizer() -> Any:
    return rg.optim.SGD([{"params": [rg.ones(1)]}, {"params": [rg.ones(1)], "lr": 4.0}], lr=1.0)


def test_a_schedule_of_the_program_s_own() -> None:
    one = optimizer()
    schedule = Halves(one)
    assert schedule.get_last_lr() == schedule.base_lrs == [1.0, 4.0]
    one.step()
    schedule.step()
    assert [group["lr"] for group in one.param_groups] == schedule.get_last_lr() == [0.5, 2.0]
    schedule.step(3)
    assert (schedule.last_epoch, schedule.get_last_lr()) == (3, [0.125, 0.5])
    state = schedule.state_dict()
    assert "optimizer" not in state
    again = Halves(optimizer())
    again.load_state_dict(state)
    again.step()
    assert again.get_last_lr() == [0.0625, 0.25]


def test_a_training_goes_on_from_the_groups() -> None:
    one = optimizer()
    Halves(one)
    assert Halves(one, last_epoch=1).get_last_lr() == [0.25, 1.0]
    with pytest.raises(KeyError, match=r"param_groups\[0\].*state_dict"):
        Halves(optimizer(), last_epoch=1)


def test_values_are_one_for_each_group() -> None:
    assert per_group("max_lr", 0.5, optimizer()) == [0.5, 0.5]
    assert per_group("max_lr", (0.5, 1.0), optimizer()) == [0.5, 1.0]
    with pytest.raises(ValueError, match=r"Expected 2 values for max_lr.* got 1"):
        per_group("max_lr", [0.5], optimizer())
