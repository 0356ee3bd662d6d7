"""What a function reaches: its tensors, and whether anything else has changed."""

from __future__ import annotations

import functools
import random
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.compile.closure_guard import closure_guard, global_generator_states
from raygrad.errors import SessionError
from raygrad.workers.code import captured_state

TABLE = {"scale": 1.0}


class Slotted:
    __slots__ = ("tensor", "value")

    def __init__(self) -> None:
        self.tensor = rg.zeros(1)
        self.value = 1


class Holder:
    def __init__(self) -> None:
        self.items: list[Any] = []
        self.slotted = Slotted()


def reads_table() -> Any:
    return TABLE["scale"]


def test_tensors_are_found_through_closures_attributes_containers_and_partials() -> None:
    a, b, c, d, e = (rg.zeros(1) for _ in range(5))
    holder = Holder()
    holder.items.append({"deep": (a, deque([b]))})
    holder.slotted.tensor = c

    def fn(x: Any = d, y: Any = None) -> Any:
        return holder, x, y

    found = closure_guard([functools.partial(fn, y=e)]).tensors
    assert {id(t) for t in found} == {id(t) for t in (a, b, c, d, e)}


def test_optimiser_is_looked_into() -> None:
    params = [rg.zeros(2, requires_grad=True)]
    optimizer = rg.optim.SGD(params, lr=0.1)
    looked = closure_guard([lambda: optimizer.step()])
    assert [id(t) for t in looked.tensors] == [id(params[0])]
    assert looked.holds()
    optimizer.param_groups[0]["lr"] = 0.2
    assert not looked.holds()


def test_changes_of_each_kind_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    holder, space, array = Holder(), SimpleNamespace(rate=1.0), np.zeros(3)
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    generator, pythons, old = np.random.default_rng(0), random.Random(0), np.random.RandomState(0)
    value = 1

    def fn() -> Any:
        return holder, space, array, fixed, generator, pythons, old, value, reads_table

    def change_value() -> None:
        nonlocal value
        value = 2

    tensor = rg.zeros(1, requires_grad=True)
    holder.items.append(tensor)
    changes = [
        change_value,
        lambda: holder.items.append(1),
        lambda: setattr(holder, "new", 1),
        lambda: setattr(holder.slotted, "value", 2),
        lambda: setattr(space, "rate", 2.0),
        lambda: array.__setitem__(0, 1.0),
        lambda: generator.random(),
        lambda: pythons.random(),
        lambda: old.rand(),
        lambda: monkeypatch.setitem(TABLE, "scale", 2.0),
        lambda: tensor.register_hook(lambda grad: None),
        lambda: monkeypatch.setattr(Holder, "extra", 1, raising=False),
    ]
    for change in changes:
        looked = closure_guard([fn])
        assert looked.holds()
        change()
        assert not looked.holds()


def test_value_of_a_tensor_is_no_change() -> None:
    tensor = rg.zeros(2)
    looked = closure_guard([lambda: tensor])
    tensor.add_(1.0)
    assert looked.holds()


def test_attribute_in_a_slot_that_is_set_to_an_equal_number_is_no_change() -> None:
    slotted = Slotted()
    slotted.value = 1_000_000
    looked = closure_guard([lambda: slotted])
    slotted.value = int("1000000")
    assert looked.holds()


@pytest.mark.parametrize("draw", [lambda: np.random.rand(2), random.random, np.random.randn, lambda: random.seed(7)])
def test_draws_from_the_generators_of_libraries_are_seen(draw: Any) -> None:
    kept = np.random.get_state(), random.getstate()
    try:
        before = global_generator_states()
        assert global_generator_states() == before
        draw()
        assert global_generator_states() != before
    finally:
        np.random.set_state(kept[0])
        random.setstate(kept[1])


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_state, "MOST", 100)
    items = [[i] for i in range(200)]
    with pytest.raises(SessionError, match=r"reaches more than 100 objects.*give it the data as tensors"):
        closure_guard([lambda: items])
