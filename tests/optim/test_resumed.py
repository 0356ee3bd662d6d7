"""A training that goes on from a file ends with the bits of one that was not interrupted, by each rule and schedule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.optim import lr_scheduler

from .rules import RULES
from .training import MATRIX, VECTOR

OPTIONS = [(name, options) for name, rule in RULES.items() for options in (rule.options[0], rule.options[-1])]

SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "ConstantLR": lambda optimizer: lr_scheduler.ConstantLR(optimizer, total_iters=4),
    "CosineAnnealingLR": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 5),
    "ExponentialLR": lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.8),
    "LambdaLR": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1)),
    "LinearLR": lambda optimizer: lr_scheduler.LinearLR(optimizer, total_iters=4),
    "MultiStepLR": lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [2, 4, 4]),
    "MultiplicativeLR": lambda optimizer: lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.9),
    "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=8),
    "PolynomialLR": lambda optimizer: lr_scheduler.PolynomialLR(optimizer, 6, 2.0),
    "ReduceLROnPlateau": lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5),
    "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 2),
    "ChainedScheduler": lambda optimizer: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ExponentialLR(optimizer, 0.9), lr_scheduler.ConstantLR(optimizer, total_iters=4)]
    ),
    "SequentialLR": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer, [lr_scheduler.ExponentialLR(optimizer, 0.9), lr_scheduler.LinearLR(optimizer)], [4]
    ),
}


def made(make: Callable[[Any], Any], schedule: Callable[[Any], Any] | None, dtype: str = "f8") -> Any:
    rg.manual_seed(4)
    leaves = [rg.from_numpy(array.astype(dtype)).requires_grad_() for array in (MATRIX.T, VECTOR)]  # one by columns
    optimizer = make([{"params": leaves[0]}, {"params": leaves[1], "lr": 0.02}])
    return leaves, optimizer, None if schedule is None else schedule(optimizer)


def train(parts: Any, steps: range) -> None:
    (matrix, vector), optimizer, schedule = parts
    for step in steps:
        optimizer.zero_grad()
        loss = (matrix * matrix + rg.rand(*matrix.shape).to(matrix.dtype)).sin().sum()
        if step % 3 != 2:
            loss = loss + (vector @ matrix).tanh().sum() + (vector * vector).sum()
        loss.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step(*([loss] if isinstance(schedule, lr_scheduler.ReduceLROnPlateau) else []))


def bits(leaves: Any) -> list[bytes]:
    return [one.detach().numpy().tobytes() for one in leaves]


def check_resumed_eagerly(make: Any, schedule: Any, path: Path, dtype: str = "f8") -> None:
    """Train for six steps with a file written after the third, and again from that file with all made anew."""
    whole = leaves, optimizer, schedules = made(make, schedule, dtype)
    train(whole, range(3))
    state = {"leaves": leaves, "optimizer": optimizer.state_dict(), "rng": rg.get_rng_state()}
    rg.save({**state, "schedule": schedules.state_dict() if schedules else None}, path)
    train(whole, range(3, 6))
    again = copies, optimizer, schedules = made(make, schedule, dtype)
    found = rg.load(path)
    with rg.no_grad():
        for leaf, saved in zip(copies, found["leaves"], strict=True):
            leaf.copy_(saved)
    optimizer.load_state_dict(found["optimizer"])
    if schedules is not None:
        schedules.load_state_dict(found["schedule"])
    rg.set_rng_state(found["rng"])
    train(again, range(3, 6))
    check_alike(again, whole)


def check_resumed_in_a_session(make: Any, schedule: Any, path: Path, *address: str, **options: Any) -> None:
    """Do the same with `session.save` and `session.load`."""
    with rg.Session(*address, **options) as session:
        whole = made(make, schedule)
        train(whole, range(3))
        session.save(path, named(whole))
        train(whole, range(3, 6))
    with rg.Session(*address, **options) as session:
        again = made(make, schedule)
        session.load(path, named(again))
        train(again, range(3, 6))
    check_alike(again, whole)


def named(parts: Any) -> dict[str, Any]:
    names = ("leaves", "optimizer", "schedule")
    return {name: part for name, part in zip(names, parts, strict=True) if part is not None}


def check_alike(again: Any, whole: Any) -> None:
    assert bits(again[0]) == bits(whole[0])
    for one, other in zip(again[1].param_groups, whole[1].param_groups, strict=True):
        assert {**one, "params": 0} == {**other, "params": 0}


def test_each_schedule_is_in_the_table():
    assert {*SCHEDULES, "LRScheduler"} == set(lr_scheduler.__all__)


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_each_optimizer_goes_on_with_the_same_bits(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    def make(params: Any) -> Any:
        return getattr(rg.optim, name)(params, **options)

    check_resumed_eagerly(make, None, tmp_path / "file")
    check_resumed_in_a_session(make, None, tmp_path / "file", workers=2)


@pytest.mark.parametrize("name", ["NAdam", "RAdam", "SGD"])
def test_half_precision_goes_on_with_the_same_bits(name: str, tmp_path: Path) -> None:
    options = {"momentum": 0.9} if name == "SGD" else {}
    check_resumed_eagerly(lambda params: getattr(rg.optim, name)(params, **options), None, tmp_path / "file", "f2")


def descent(params: Any) -> Any:
    return rg.optim.SGD(params, lr=0.1, momentum=0.9)


@pytest.mark.parametrize("name", SCHEDULES)
def test_each_schedule_goes_on_with_the_same_bits(name: str, tmp_path: Path) -> None:
    check_resumed_eagerly(descent, SCHEDULES[name], tmp_path / "file")
    check_resumed_in_a_session(descent, SCHEDULES[name], tmp_path / "file", strict=True)


@pytest.mark.ray
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["SGD", "NAdam"])
def test_a_training_on_ray_goes_on_with_the_same_bits(name: str, ray_started: Any, tmp_path: Path) -> None:
    def make(params: Any) -> Any:
        return getattr(rg.optim, name)(params, lr=0.1)

    check_resumed_in_a_session(make, SCHEDULES["CosineAnnealingLR"], tmp_path / "file", "ray", workers=2)


@pytest.mark.oracle
@pytest.mark.parametrize("name", sorted(RULES))
def test_states_of_optimizers_have_the_form_of_torchs(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    forms: list[Any] = []
    for library in (rg, torch):
        leaf = library.from_numpy(np.ones(3)).requires_grad_()
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(library.optim, name)([leaf], lr=0.1, **options)
        (leaf * leaf).sum().backward()
        optimizer.step()
        state = optimizer.state_dict()
        kept = {key: tuple(one.shape) for key, one in state["state"][0].items()}
        forms.append((sorted(state), sorted(state["state"]), kept, state["param_groups"][0]["params"]))
    assert forms[0] == forms[1]
