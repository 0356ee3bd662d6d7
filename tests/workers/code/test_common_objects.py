"""Which values hold an object in common."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from raygrad.workers.code.common_objects import sharing


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held


def test_values_that_are_or_hold_one_container_are_found() -> None:
    held, array = [1], np.ones(2)
    given = {"a": held, "n": 1, "b": {"key": (held,)}, "c": [2], "d": Holder(array), "e": array, "f": [array.copy()]}
    assert sharing(given) == ["a", "b", "d", "e"]


def test_equal_ones_are_not_one() -> None:
    assert sharing({"a": [1], "b": [1], "c": ([1],)}) == []


class Warns(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"looked for {name}")


def test_code_and_modules_are_not_looked_into() -> None:
    held, module = [1], Warns("warns")
    first, second = (lambda: (held, module)), (lambda: (held, module))
    assert sharing({"a": first, "b": second, "c": module, "d": [module], "e": Holder, "f": [].append}) == []
