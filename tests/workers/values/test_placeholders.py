"""Placeholders say in which state the value is that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.proto.codec.values import pack_values, unpack_values
from raygrad.workers.memory.rematerialize import Recipe, RecipeValue
from raygrad.workers.values.placeholders import GONE, SpilledValue, ValueState, state_of
from raygrad.workers.values.spill_file import SpillFile


def test_the_state_of_a_value_is_told_by_what_stands_in_its_place() -> None:
    spilled = SpilledValue(SpillFile().write(pack_values([np.zeros(10)])), [("cpu", 80)])
    recipe = RecipeValue(Recipe((1, 0), {}, 1, 0, {}))
    found = [state_of(one) for one in (np.zeros(3), None, "text", spilled, recipe)]
    assert found == [*[ValueState.IN_MEMORY] * 3, ValueState.SPILLED, ValueState.RECIPE]
    assert spilled.nbytes == 80


def test_a_spilled_value_is_read_by_the_store() -> None:
    class Store:
        def load(self, region: Any) -> Any:
            return unpack_values(region.read())[0]

    store: Any = Store()
    spilled = SpilledValue(SpillFile().write(pack_values([np.arange(4.0)])), [("cpu", 32)])
    assert [spilled.restore(store).tolist() for _ in range(2)] == [[0.0, 1.0, 2.0, 3.0]] * 2


def test_a_released_value_names_itself() -> None:
    assert repr(GONE) == "GONE"
