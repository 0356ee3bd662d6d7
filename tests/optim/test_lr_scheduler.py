"""Schedules of learning rates, beside those of PyTorch: the same numbers, to the last bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import raygrad as rg
from raygrad.optim import lr_scheduler

Make = Callable[[Any, Any], Any]

# fmt: off
SCHEDULES: dict[str, Make] = {
    "StepLR": lambda L, o: L.StepLR(o, 3, 0.3),
    "MultiStepLR": lambda L, o: L.MultiStepLR(o, [2, 5, 5, 9], 0.3),
    "ConstantLR": lambda L, o: L.ConstantLR(o, 0.3, 4),
    "LinearLR": lambda L, o: L.LinearLR(o, 0.1, 0.7, 6),
    "ExponentialLR": lambda L, o: L.ExponentialLR(o, 0.93),
    "PolynomialLR": lambda L, o: L.PolynomialLR(o, 7, 1.7),
    "CosineAnnealingLR": lambda L, o: L.CosineAnnealingLR(o, 5, 0.01),
    "LambdaLR": lambda L, o: L.LambdaLR(o, lambda step: 0.95**step),
    "LambdaLR of two": lambda L, o: L.LambdaLR(o, [lambda step: 0.9**step, lambda step: 1 / (step + 1)]),
    "MultiplicativeLR": lambda L, o: L.MultiplicativeLR(o, lambda step: 1 - 0.01 * step),
    "OneCycleLR": lambda L, o: L.OneCycleLR(o, [0.5, 0.1], total_steps=24),
    "OneCycleLR linear": lambda L, o: L.OneCycleLR(
        o, 0.5, epochs=4, steps_per_epoch=6, anneal_strategy="linear", three_phase=True, pct_start=0.2,
    ),
    "OneCycleLR without momentum": lambda L, o: L.OneCycleLR(o, 0.5, total_steps=24, cycle_momentum=False),
    "SequentialLR": lambda L, o: L.SequentialLR(
        o, [L.LinearLR(o, 0.1, 1.0, 4), L.CosineAnnealingLR(o, 6), L.ExponentialLR(o, 0.9)], [4, 12],
    ),
    "SequentialLR of all": lambda L, o: L.SequentialLR(
        o,
        [L.ConstantLR(o, 0.2, 2), L.StepLR(o, 2, 0.5), L.MultiStepLR(o, [1, 3]), L.PolynomialLR(o, 4), L.LinearLR(o)],
        [3, 7, 11, 15],
    ),
    "ChainedScheduler": lambda L, o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 3), L.ExponentialLR(o, 0.9)]),
    "SequentialLR of chains": lambda L, o: L.SequentialLR(
        o, [L.ChainedScheduler([L.LinearLR(o), L.ExponentialLR(o, 0.9)]), L.StepLR(o, 2)], [6],
    ),
}
# fmt: on


def optimizer_of(lib: Any, kind: str = "SGD") -> Any:
    first, second = (lib.ones(2, requires_grad=True) for _ in range(2))
    groups = [{"params": [first]}, {"params": [second], "lr": 0.05}]
    if kind == "SGD":
        return lib.optim.SGD(groups, lr=0.2, momentum=0.9)
    return lib.optim.Adam(groups, lr=0.2)


def rates(lib: Any, make: Make, kind: str = "SGD", steps: int = 22, meddle: int = -1) -> list[Any]:
    """The rates, and the momenta, of each step; at step `meddle` the program sets one itself."""
    optimizer = optimizer_of(lib, kind)
    seen: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schedule = make(lib.optim.lr_scheduler, optimizer)
        for step in range(steps):
            optimizer.step()
            if step == meddle:
                optimizer.param_groups[0]["lr"] *= 0.5
            seen.append([(g["lr"], g.get("momentum"), g.get("betas")) for g in optimizer.param_groups])
            seen.append(list(schedule.get_last_lr()))
            schedule.step()
    return seen


@pytest.mark.oracle
@pytest.mark.parametrize("meddle", [-1, 4])
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_rates_are_those_of_pytorch(name: str, kind: str, meddle: int) -> None:
    torch = pytest.importorskip("torch")
    expected = rates(torch, SCHEDULES[name], kind, meddle=meddle)
    assert rates(rg, SCHEDULES[name], kind, meddle=meddle) == expected


def test_a_linear_schedule_reaches_its_last_factor_and_stays_there() -> None:
    optimizer = rg.optim.SGD([rg.ones(2, requires_grad=True)], lr=0.5)
    schedule = lr_scheduler.LinearLR(optimizer, start_factor=0.2, end_factor=1.0, total_iters=4)
    seen: list[float] = []
    for _ in range(6):
        optimizer.step()
        seen += schedule.get_last_lr()
        schedule.step()
    assert seen == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.5])


@pytest.mark.filterwarnings("ignore:Detected call:UserWarning")  # of the first step of a chain in a sequence
@pytest.mark.parametrize("name", [name for name in SCHEDULES if "OneCycle" not in name])
def test_a_schedule_goes_on_from_its_state(name: str) -> None:
    optimizer = optimizer_of(rg)
    schedule = SCHEDULES[name](lr_scheduler, optimizer)
    for _ in range(7):
        optimizer.step()
        schedule.step()
    other = optimizer_of(rg)
    again = SCHEDULES[name](lr_scheduler, other)
    other.load_state_dict(optimizer.state_dict())
    again.load_state_dict(schedule.state_dict())
    for _ in range(7):
        for one, its in ((optimizer, schedule), (other, again)):
            one.step()
            its.step()
        assert [g["lr"] for g in optimizer.param_groups] == [g["lr"] for g in other.param_groups]


def test_functions_of_the_program_are_saved_where_they_are_objects() -> None:
    class Decay:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def __call__(self, step: int) -> float:
            return self.rate**step

    optimizer = optimizer_of(rg)
    state = lr_scheduler.LambdaLR(optimizer, [Decay(0.5), lambda step: 1.0]).state_dict()
    assert state["lr_lambdas"] == [{"rate": 0.5}, None]
    again = lr_scheduler.LambdaLR(optimizer_of(rg), [Decay(0.1), lambda step: 1.0])
    again.load_state_dict(state)
    again.optimizer.step()
    again.step()
    assert again.get_last_lr()[0] == 0.1


REFUSED: dict[str, tuple[type[BaseException], Callable[[Any, Any], Any]]] = {
    "no optimizer": (TypeError, lambda L, o: L.StepLR(None, 3)),
    "functions for other groups": (ValueError, lambda L, o: L.LambdaLR(o, [lambda step: 1.0])),
    "a constant factor above 1": (ValueError, lambda L, o: L.ConstantLR(o, 1.5)),
    "a starting factor of 0": (ValueError, lambda L, o: L.LinearLR(o, 0.0)),
    "an ending factor above 1": (ValueError, lambda L, o: L.LinearLR(o, end_factor=2.0)),
    "milestones that do not fit": (ValueError, lambda L, o: L.SequentialLR(o, [L.StepLR(o, 1)], [3])),
    "no schedules": (ValueError, lambda L, o: L.ChainedScheduler([])),
    "a training that goes on from nothing": (KeyError, lambda L, o: L.StepLR(o, 1, last_epoch=3)),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_by_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    kind, call = REFUSED[name]
    for lib in (rg, torch):
        with pytest.raises(kind):
            call(lib.optim.lr_scheduler, optimizer_of(lib))


def test_a_schedule_of_another_optimizer_is_refused() -> None:
    one, other = optimizer_of(rg), optimizer_of(rg)
    with pytest.raises(ValueError, match="belong to one optimizer, but number 0 does not"):
        lr_scheduler.SequentialLR(one, [lr_scheduler.StepLR(other, 1)], [])
    with pytest.raises(ValueError, match="takes no epoch"):
        lr_scheduler.SequentialLR(one, [lr_scheduler.StepLR(one, 1)], []).step(3)


def test_a_step_before_that_of_the_optimizer_is_warned_of() -> None:
    optimizer = optimizer_of(rg)
    schedule = lr_scheduler.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        schedule.step()


@pytest.mark.parametrize("strict", [False, True])
def test_a_schedule_in_a_session_moves_parameters_as_eagerly_and_makes_no_new_plan(strict: bool) -> None:
    def trained() -> Any:
        w: Any = rg.tensor([1.0, -2.0], dtype=rg.float64, requires_grad=True)
        optimizer = rg.optim.SGD([w], lr=0.1, momentum=0.9)
        schedule = lr_scheduler.CosineAnnealingLR(optimizer, 5)
        for _ in range(6):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            schedule.step()
        return w.detach().numpy().tobytes()

    expected = trained()
    with rg.Session(strict=strict):
        assert trained() == expected
