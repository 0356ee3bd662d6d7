"""Guards: each kind of reference, container, buffer and state is compared, by itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.workers.code.guard import ABSENT, Guard


def template(a: Any, b: Any = 1, *, c: Any = 2) -> Any:
    return a, b, c


def function() -> Any:
    """Return a function of its own, to be changed."""
    made = FunctionType(template.__code__, {"__name__": "__main__"}, "f", (1,))
    made.__kwdefaults__ = {"c": 2}
    return made


def test_an_empty_guard_holds():
    assert Guard().holds()


def guarded(fill: Callable[[Guard], object]) -> Guard:
    guard = Guard()
    fill(guard)
    assert guard.holds()
    return guard


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("__code__", (lambda: None).__code__),
        ("__defaults__", (2,)),
        ("__kwdefaults__", {"c": 2}),
        ("__kwdefaults__", None),
        ("note", 2),
    ],
)
def test_each_component_of_a_function_is_guarded(name: str, value: Any):
    changed = function()
    changed.note = 1
    guard = guarded(lambda guard: guard.function(changed, ()))
    setattr(changed, name, value)
    assert not guard.holds()


def test_an_equal_default_is_no_change_and_a_keyword_default_is_guarded_in_its_place():
    changed = function()
    guard = guarded(lambda guard: guard.function(changed, ()))
    changed.__defaults__ = (int("1"),)
    assert guard.holds()
    changed.__kwdefaults__["c"] = 3
    assert not guard.holds()


def test_each_kind_of_reference_is_guarded():
    cell, space, slotted = CellType(1), {"RATE": 1}, ModuleType("slotted")
    slotted.value = 1  # type: ignore[attr-defined]
    references = [("cell", "x", cell, 1), ("global", "RATE", space, 1), ("slot", "value", slotted, 1)]
    module = {"RATE": 1}
    references.append(("through module", "RATE", module, 1))
    changes: list[Callable[[Any], None]] = [
        lambda new: setattr(cell, "cell_contents", new),
        lambda new: space.update(RATE=new),
        lambda new: setattr(slotted, "value", new),
        lambda new: module.update(RATE=new),
    ]
    for reference, change in zip(references, changes, strict=True):
        guard = guarded(lambda guard, reference=reference: guard.references([reference]))
        change(2)
        assert not guard.holds(), reference
        change(1)
        assert guard.holds(), reference
    guard = guarded(lambda guard: guard.references(references))
    del cell.cell_contents
    assert not guard.holds()
    cell.cell_contents = 1
    del space["RATE"]
    assert not guard.holds()
    space["RATE"] = 1
    del slotted.value  # type: ignore[attr-defined]
    assert not guard.holds()


def test_containers_are_guarded_by_items_and_length():
    mapping: dict[Any, Any] = {"a": None, 1: 2}
    guard = guarded(lambda guard: guard.mapping(mapping))
    for change, back in (
        (lambda: mapping.update(b=1), lambda: mapping.pop("b")),
        (lambda: mapping.update({1: 3}), lambda: mapping.update({1: 2})),
    ):
        change()
        assert not guard.holds()
        back()
        assert guard.holds()
    mapping["a"] = mapping.pop("a")
    assert not guard.holds()  # another order, in which code would meet the items
    items = [1, 2]
    guard = guarded(lambda guard: guard.collection(items))
    items.append(3)
    assert not guard.holds()
    items.pop()
    items.reverse()
    assert not guard.holds()


class Slotted:
    __slots__ = ("first", "second")


class Bare:
    __slots__ = ()


class OtherBare:
    __slots__ = ()


class Held:
    pass


class Other:
    pass


def test_items_that_move_from_one_collection_to_the_next_are_a_change():
    value = object()
    for first, second in (([value], list[Any]()), (deque[Any]([value]), deque[Any]()), ({value}, set[Any]())):
        guard = guarded(lambda guard, pair=(first, second): [guard.collection(one) for one in pair])
        second.append(first.pop()) if not isinstance(second, set) else second.add(first.pop())
        assert not guard.holds()
    before, after = {"a": value}, dict[str, Any]()
    guard = guarded(lambda guard: [guard.mapping(before), guard.mapping(after)])
    after["a"] = before.pop("a")
    assert not guard.holds()
    renamed = {"a": value}
    guard = guarded(lambda guard: guard.mapping(renamed))
    renamed["b"] = renamed.pop("a")
    assert not guard.holds()


def test_an_instance_is_guarded_by_its_class_its_dict_and_its_slots():
    slotted, bare, held = Slotted(), Bare(), Held()
    slotted.first, held.value = object(), 1  # type: ignore[attr-defined]

    def slots(guard: Guard) -> None:
        guard.instance(slotted)
        guard.references([("slot", "first", slotted, slotted.first), ("slot", "second", slotted, ABSENT)])

    guard = guarded(slots)
    slotted.second = slotted.first
    del slotted.first
    assert not guard.holds()
    slotted.first = slotted.second
    del slotted.second
    assert guard.holds()
    guard = guarded(lambda guard: guard.instance(bare))
    bare.__class__ = OtherBare  # type: ignore[assignment]
    assert not guard.holds()
    guard = guarded(lambda guard: guard.instance(held))
    held.__class__ = Other  # type: ignore[assignment]
    assert not guard.holds()
    held.__class__ = Held
    assert guard.holds()
    held.__dict__ = {"value": 1}
    assert not guard.holds()


def test_equal_numbers_that_are_other_objects_are_no_change_and_no_user_code_compares():
    class Rate:
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = None  # type: ignore[assignment]

    held = Held()
    held.rate, held.items = 1e3, [2e3, Rate()]  # type: ignore[attr-defined]

    def fill(guard: Guard) -> None:
        guard.instance(held)
        guard.collection(held.items)  # type: ignore[attr-defined]

    guard = guarded(fill)
    held.rate, held.items[0] = float("1e3"), float("2e3")  # type: ignore[attr-defined]
    assert guard.holds()
    for other in (1000, np.float64(1e3), -1e3, Rate()):
        held.rate = other  # type: ignore[attr-defined]
        assert not guard.holds()
    held.rate, held.items[1] = 1e3, Rate()  # type: ignore[attr-defined]
    assert not guard.holds()


def test_members_of_a_class_are_guarded_but_for_what_python_makes():
    class Code:
        option = 1

    guard = guarded(lambda guard: guard.members(Code))
    Code.__slotnames__ = []  # type: ignore[attr-defined]
    assert guard.holds()
    Code.more = 1  # type: ignore[attr-defined]
    assert not guard.holds()
    del Code.more  # type: ignore[attr-defined]
    assert guard.holds()
    Code.option = 2
    assert not guard.holds()


def test_arrays_are_guarded_by_shape_dtype_and_elements_generators_by_state_tensors_by_kind():
    array = np.ones(4)
    guard = guarded(lambda guard: guard.array(array))
    array[3] = 2.0
    assert not guard.holds()
    array[3] = 1.0
    assert guard.holds()
    resized = np.zeros(0)
    guard = guarded(lambda guard: guard.array(resized))
    resized.resize((0, 2), refcheck=False)
    assert not guard.holds()
    ints: Any = np.zeros(2, dtype=np.int64)
    guard = guarded(lambda guard: guard.array(ints))
    ints.dtype = np.dtype(np.float64)
    assert not guard.holds()
    generator = np.random.default_rng(0)
    guard = guarded(lambda guard: guard.generator(generator))
    generator.random()
    assert not guard.holds()
    tensor = rg.zeros(1)
    guard = Guard()
    guard.tensor(tensor)
    tensor.add_(1.0)
    assert guard.holds()
    tensor.requires_grad = True
    assert not guard.holds()


def test_arrays_of_objects_are_guarded_by_the_objects():
    objects: Any = np.array([[1.5, "a"], [None, len]], dtype=object)
    guard = guarded(lambda guard: guard.array(objects))
    assert guard.holds()
    objects[0, 0] = 1.5
    assert guard.holds()
    objects[0, 0] = 2.5
    assert not guard.holds()
