from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.functions.function import Function
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.workers.code.code_cache_key import CodeCacheKey
from raygrad.workers.code.guard import Guard
from raygrad.workers.code.shipping import ship

RATE = 0.5


class Scale(Function):
    factor = 2.0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return Tensor(x.numpy() * Scale.factor * RATE)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return Tensor(np.multiply(grads[0].numpy(), math.sqrt(4)))


def made_with(*values: Any) -> Callable[..., Any]:
    first = values[0]

    def hook(grad: Any) -> Any:
        return grad, first, values

    return hook


def alike(one: Any, other: Any) -> bool:
    return CodeCacheKey(one).key == CodeCacheKey(other).key


def test_a_function_made_anew_is_alike_its_values_counting_by_value():
    assert alike(made_with(1, "a"), made_with(1, "a"))
    assert not alike(made_with(1, "a"), made_with(2, "a"))
    assert not alike(made_with(1), made_with(1.0))
    assert not alike(made_with(1), made_with(True))
    assert not alike(made_with(0.0), made_with(-0.0))


def test_what_is_alike_has_one_fingerprint_what_is_not_has_two():
    makers: list[Callable[[], Any]] = [
        lambda: made_with(1, "a"),
        lambda: made_with(2, "a"),
        lambda: made_with(np.ones(2)),
        lambda: made_with(Tensor(np.ones(2))),
        lambda: Scale,
        lambda: lambda g, a=(1, 2): g,
        lambda: lambda g, *, a=None: g,
    ]
    for maker in makers:
        assert alike(maker(), maker())
        assert ship(maker()).fingerprint == ship(maker()).fingerprint
    assert len({ship(maker()).fingerprint for maker in makers}) == len(makers)


def test_annotated_functions_count_by_their_annotations():
    spaces: list[dict[str, Any]] = [{}, {}, {}]
    for space, annotation in zip(spaces, ("list[float]", "list[int]", "float | None"), strict=True):
        exec(f"def hook(grad: {annotation}): return grad", space)
    keys = [CodeCacheKey(space["hook"]) for space in spaces]
    assert all(key.sure for key in keys)
    assert len({ship(space["hook"]).fingerprint for space in spaces}) == 3
    assert CodeCacheKey(spaces[0]["hook"]).key == keys[0].key
    before = keys[0].key
    spaces[0]["hook"].__annotations__["grad"] = list[int]
    assert CodeCacheKey(spaces[0]["hook"]).key != before


def test_captured_arrays_are_listed_once_each_and_do_not_count():
    array, tensor = np.ones(2), Tensor(np.ones(3))
    looks = CodeCacheKey(made_with(array, tensor, array))
    assert sorted(map(id, looks.captured)) == sorted([id(array), id(tensor)])
    assert alike(made_with(array, tensor, array), made_with(np.zeros(5), Tensor(np.ones(1)), np.zeros(1))) is False
    assert alike(made_with(array), made_with(np.zeros(5)))


def test_the_captured_arrays_of_code_known_by_its_looks_come_in_the_order_of_its_pickle():
    def make() -> tuple[Any, list[Any]]:
        a, b = np.ones(2), Tensor(np.zeros(3))

        def hook(grad: Any, also: Any = b) -> Any:
            return a, b, also

        return hook, [a, b]

    (one, _), (two, captured) = make(), make()
    first, second = ship(one), ship(two)
    assert first.fingerprint == second.fingerprint
    assert [type(value) for value in first.captured] == [type(value) for value in second.captured]
    assert sorted(map(id, second.captured)) == sorted(map(id, captured))


def test_a_changed_attribute_global_or_method_of_a_class_is_seen(monkeypatch: Any):
    before = CodeCacheKey(Scale).key
    assert CodeCacheKey(Scale).key == before
    for change in (
        lambda patch: patch.setattr(Scale, "factor", 3.0),
        lambda patch: patch.setitem(globals(), "RATE", 0.25),
        lambda patch: patch.setattr(Scale, "backward", staticmethod(lambda ctx, g: g)),
        lambda patch: patch.setattr(Scale, "more", 1, raising=False),
    ):
        with monkeypatch.context() as patch:
            change(patch)
            assert CodeCacheKey(Scale).key != before
    assert CodeCacheKey(Scale).key == before


@pytest.mark.parametrize(
    "value", [np.array(["a"]), functools.partial(max, 1), iter([1])], ids=lambda v: type(v).__name__
)
def test_what_may_change_unseen_is_never_sure(value: Any):
    assert not CodeCacheKey(made_with(value)).sure
    assert CodeCacheKey(made_with(1)).sure


def test_installed_functions_classes_and_modules_count_by_identity():
    assert alike(made_with(np, math.sqrt, np.add, Tensor, np.mean), made_with(np, math.sqrt, np.add, Tensor, np.mean))
    assert not alike(made_with(math.sqrt), made_with(math.sin))


def test_a_module_of_the_user_s_counts_by_what_its_names_stand_for():
    module = types.ModuleType("raygrad_test_module")
    module.rate = 1  # type: ignore[attr-defined]
    before = CodeCacheKey(made_with(module)).key
    assert CodeCacheKey(made_with(module)).key == before
    module.rate = 2  # type: ignore[attr-defined]
    assert CodeCacheKey(made_with(module)).key != before


class Settings:
    def __init__(self, rate: float) -> None:
        self.rate = rate


def test_containers_and_plain_instances_count_by_what_they_hold():
    assert alike(made_with([1, {"a": (2,)}], {3}), made_with([1, {"a": (2,)}], {3}))
    assert not alike(made_with([1, {"a": 2}]), made_with([1, {"a": 3}]))
    assert alike(made_with(Settings(1.0)), made_with(Settings(1.0)))
    assert not alike(made_with(Settings(1.0)), made_with(Settings(2.0)))
    around: list[Any] = []
    around.append(around)
    assert CodeCacheKey(made_with(around)).sure
    assert not CodeCacheKey(made_with(list(range(1000)))).sure


def reader(*values: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Return code that reads a variable, and what binds the variable anew."""
    value = values[0]

    def read() -> Any:
        return value, RATE

    def bind(new: Any) -> None:
        nonlocal value
        value = new

    return read, bind


def test_a_guard_sees_a_variable_bound_anew_and_back():
    read, bind = reader(1)
    guard = CodeCacheKey(read).guard
    assert guard.holds()
    bind(2)
    assert not guard.holds()
    bind(1)
    assert guard.holds()


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        (0.1, float("0.1"), True),
        (float("nan"), float("nan"), True),
        (0.0, -0.0, False),
        (10**6, int("1000000"), True),
        (1, True, False),
        (1, 1.0, False),
        (1 + 2j, complex("1+2j"), True),
        ("a rate", "".join(["a ", "rate"]), True),
        ((0.9, 0.999), (float("0.9"), float("0.999")), True),
        ((0.9, 0.999), (0.9, 0.99), False),
        (([],), ([],), False),
        (np.float64(0.1), np.float64(0.1), True),
        (np.float64(0.1), 0.1, False),
        (np.float32(2), np.float32(3), False),
        (np.array([1.0]), np.array([1.0]), False),
        ([], [], False),
        (None, [], False),
    ],
    ids=repr,
)
def test_a_guard_takes_equal_numbers_and_strings_for_the_same(before: Any, now: Any, same: bool):
    guard, table = Guard(), {"option": before}
    guard.mapping(table)
    table["option"] = now
    assert guard.holds() == same


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1], lambda v: v.append(2)),
        ([1], lambda v: v.__setitem__(0, 2)),
        ({1}, lambda v: v.add(2)),
        ({"a": [1]}, lambda v: v["a"].append(2)),
        ({"a": 1}, lambda v: v.update(a=2)),
        ({"a": 1}, lambda v: v.update(b=2)),
        (list(range(1000)), lambda v: v.append(2)),
        (Settings(1.0), lambda v: setattr(v, "rate", 2.0)),
        (types.SimpleNamespace, lambda v: None),
    ],
    ids=["append", "item", "set", "nested", "value", "key", "long", "instance", "nothing"],
)
def test_a_guard_sees_what_is_changed_inside(value: Any, change: Callable[[Any], None]):
    read, _ = reader(value)
    guard = CodeCacheKey(read).guard
    assert guard.holds()
    change(value)
    assert guard.holds() == (value is types.SimpleNamespace)


def test_a_guard_sees_a_global_and_a_class_attribute(monkeypatch: Any):
    guard = CodeCacheKey(Scale).guard
    assert guard.holds()
    Scale.apply(Tensor(np.ones(2), requires_grad=True))  # raygrad's own notes on the class do not count
    assert guard.holds()
    with monkeypatch.context() as patch:
        patch.setattr(Scale, "factor", 3.0)
        assert not guard.holds()
    assert guard.holds()
    with monkeypatch.context() as patch:
        patch.setattr(Scale, "more", 3.0, raising=False)
        assert not guard.holds()
    monkeypatch.setitem(globals(), "RATE", 0.25)
    assert not guard.holds()
    assert Guard().holds()
