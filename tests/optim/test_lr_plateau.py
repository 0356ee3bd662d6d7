"""A learning rate that falls when a value does not get better, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.optim.lr_scheduler import ReduceLROnPlateau

VALUES = [1.0, 0.9, 0.9, 0.90001, 0.95, 0.89, 0.9, 0.9, 0.9, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3, 0.1, 0.2, 0.2, 0.2, 0.2]


def optimizer(lib: Any) -> Any:
    groups = [{"params": [lib.ones(1, requires_grad=True)]}, {"params": [lib.ones(1, requires_grad=True)], "lr": 0.05}]
    return lib.optim.SGD(groups, lr=0.2)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1},
        {"patience": 0, "cooldown": 2, "factor": 0.5},
        {"mode": "max", "patience": 1, "threshold": 0.1},
        {"patience": 1, "threshold": 0.05, "threshold_mode": "abs"},
        {"mode": "max", "patience": 2, "threshold_mode": "abs"},
        {"patience": 0, "min_lr": [0.01, 0.04], "eps": 1e-3},
    ],
)
def test_the_rates_are_those_of_pytorch(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    seen: dict[Any, list[Any]] = {}
    for lib in (rg, torch):
        one = optimizer(lib)
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(one, **options)
        seen[lib] = []
        for value in VALUES:
            one.step()
            schedule.step(value)
            seen[lib].append(([g["lr"] for g in one.param_groups], schedule.get_last_lr(), schedule.num_bad_epochs))
    assert seen[rg] == seen[torch]


def test_a_pending_loss_is_read() -> None:
    one = optimizer(rg)
    schedule = ReduceLROnPlateau(one, patience=0)
    with rg.Session():
        for _ in range(2):
            schedule.step(rg.ones(3).sum())
    assert one.param_groups[0]["lr"] == 0.2 * 0.1


def test_it_goes_on_from_its_state() -> None:
    schedule = ReduceLROnPlateau(optimizer(rg), patience=1)
    for value in VALUES[:4]:
        schedule.step(value)
    again = ReduceLROnPlateau(optimizer(rg))
    again.load_state_dict(schedule.state_dict())
    assert (again.best, again.num_bad_epochs, again.patience) == (0.9, schedule.num_bad_epochs, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": 1.0}, "Factor should be < 1.0"),
        ({"mode": "least"}, "mode least is unknown"),
        ({"threshold_mode": "much"}, "threshold mode much is unknown"),
        ({"min_lr": [0.1]}, "Expected 2 values for min_lr"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReduceLROnPlateau(optimizer(rg), **options)
    with pytest.raises(TypeError, match="is not an Optimizer"):
        ReduceLROnPlateau(None)  # pyright: ignore[reportArgumentType]


def test_steps_of_a_cooldown_count_for_no_reduction() -> None:
    optimizer = rg.optim.SGD([rg.ones(1, requires_grad=True)], lr=1.0)
    scheduler = rg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=3)
    rates: list[float] = []
    for _ in range(9):
        scheduler.step(1.0)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]
