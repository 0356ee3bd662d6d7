"""Each component of a code fingerprint, by itself: two pieces of code that differ in that one alone."""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.function import Function
from raygrad.workers.code.code_cache_key import CodeCacheKey
from raygrad.workers.code.shipping import ship


def template(a: Any, b: Any = 1, *, c: Any = 2) -> Any:
    """Read a global, and two variables of nobody."""
    return a, b, c, RATE  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


def made(source: str = "def f(a):\n    return a, RATE", name: str = "f", **space: Any) -> Any:
    globals_: dict[str, Any] = {"__name__": "__main__", "RATE": 1, **space}
    exec(source, globals_)
    return globals_[name]


SPACE: dict[str, Any] = {"__name__": "__main__", "RATE": 1}
OTHER_SPACE = dict(SPACE)


def function(code: Any = template.__code__, space: dict[str, Any] = SPACE) -> Any:
    """Return a function that is alike each time."""
    function = FunctionType(code, space, "f", (1,))
    function.__kwdefaults__ = {"c": 2}
    function.__annotations__ = {"a": "int"}
    function.__module__, function.__qualname__, function.__doc__ = "__main__", "f", "What it does."
    return function


def changed_by_setting(name: str, value: Any) -> Callable[[], Any]:
    def make() -> Any:
        changed = function()
        setattr(changed, name, value)
        return changed

    return make


def enclosing(value: Any) -> Any:
    return lambda: value


CELL_CODE = enclosing(1).__code__

FUNCTIONS: dict[str, Callable[[], Any]] = {
    "code": lambda: function(made("def f(a, b, *, c):\n    return 2, RATE").__code__),
    "globals by identity": lambda: function(space=OTHER_SPACE),
    "qualified name": changed_by_setting("__qualname__", "g"),
    "module": changed_by_setting("__module__", "__mp_main__"),
    "docstring": changed_by_setting("__doc__", "Something else."),
    "defaults": changed_by_setting("__defaults__", (2,)),
    "number of defaults": changed_by_setting("__defaults__", (1, 1)),
    "type of a default": changed_by_setting("__defaults__", (True,)),
    "keyword defaults": changed_by_setting("__kwdefaults__", {"c": 3}),
    "annotations": changed_by_setting("__annotations__", {"a": "float"}),
    "attributes": changed_by_setting("note", 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_component_of_a_function_counts(name: str):
    assert CodeCacheKey(function()).key == CodeCacheKey(function()).key
    other = CodeCacheKey(FUNCTIONS[name]())
    assert other.sure
    assert other.key != CodeCacheKey(function()).key


def test_a_global_counts_by_value(monkeypatch: pytest.MonkeyPatch):
    before = CodeCacheKey(function()).key
    monkeypatch.setitem(SPACE, "RATE", 2)
    assert CodeCacheKey(function()).key != before
    monkeypatch.delitem(SPACE, "RATE")
    assert CodeCacheKey(function()).key != before


def test_the_closure_counts_also_what_is_not_bound_yet():
    def with_cell(cell: CellType) -> Any:
        return FunctionType(CELL_CODE, SPACE, "f", None, (cell,))

    bound, same, other, none = (CodeCacheKey(with_cell(c)).key for c in map(CellType, (1, 1, 2, None)))
    unbound = CodeCacheKey(with_cell(CellType())).key
    assert bound == same
    assert len({bound, other, none, unbound}) == 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [2, 1]),
        ([1, 2], (1, 2)),
        ([[1], 2], [[1, 2]]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1}, frozenset({1})),
        (1.0, 1),
        (1j, 1.0),
        (0.0, -0.0),
        ("1", b"1"),
        (None, 0),
        (np.ones(1), rg.ones(1)),
        (rg.ones(1), rg.ones(1, requires_grad=True)),
        (rg.ones(1, requires_grad=True), rg.ones(1, requires_grad=True) * 2),
        (staticmethod(repr), classmethod(repr)),
        (rg.Session, rg.nn),
    ],
    ids=repr,
)
def test_values_that_code_could_tell_apart_have_two_keys(one: Any, other: Any):
    assert CodeCacheKey(enclosing(one)).key != CodeCacheKey(enclosing(other)).key


def test_it_counts_which_places_hold_one_object():
    one, other = [1], [1]
    assert CodeCacheKey(enclosing([one, one])).key != CodeCacheKey(enclosing([one, other])).key
    assert CodeCacheKey(enclosing([one, other, one])).key != CodeCacheKey(enclosing([one, other, other])).key
    a, b = np.ones(1), np.ones(1)
    assert CodeCacheKey(enclosing([a, a])).key != CodeCacheKey(enclosing([a, b])).key


class Base:
    pass


class Method:
    def method(self) -> Any:
        return self

    def other(self) -> Any:
        return self


def test_the_class_the_bases_and_each_member_count():
    class Code(Base):
        option = 1

    before = CodeCacheKey(Code).key
    assert CodeCacheKey(Code).key == before
    Code.option = 2
    assert CodeCacheKey(Code).key != before
    Code.option = 1
    assert CodeCacheKey(Code).key == before
    Code.__bases__ = (Method,)
    assert CodeCacheKey(Code).key != before
    Code.__bases__ = (Base,)
    Base.inherited = 1  # type: ignore[attr-defined]
    assert CodeCacheKey(Code).key != before
    del Base.inherited  # type: ignore[attr-defined]
    assert CodeCacheKey(Code).key == before
    twin = type("Code", (Base,), dict(vars(Code)))
    assert CodeCacheKey(twin).key != before


def test_an_instance_counts_by_its_class_and_its_attributes():
    one, same, more, other = Base(), Base(), Base(), Method()
    for instance in (one, same, other):
        instance.value = 0  # type: ignore[attr-defined]
    more.value = 1  # type: ignore[attr-defined]
    keys = [CodeCacheKey(enclosing(value)).key for value in (one, same, more, other)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_a_method_counts_by_its_function_and_its_object():
    one, other = Method(), Method()
    other.value = 1  # type: ignore[attr-defined]
    assert CodeCacheKey(one.method).key != CodeCacheKey(other.method).key
    assert CodeCacheKey(one.method).key != CodeCacheKey(one.other).key
    assert CodeCacheKey(one.method).key != CodeCacheKey(Method.method).key


@pytest.mark.parametrize("name", ["_traits", "_backward_cls"])
def test_names_that_raygrad_keeps_in_functions_are_the_user_s_own_elsewhere(name: str):
    class Code:
        pass

    before, shipped = CodeCacheKey(Code), ship(Code).fingerprint
    setattr(Code, name, 1)
    assert CodeCacheKey(Code).key != before.key
    assert not before.guard.holds()
    assert ship(Code).fingerprint != shipped

    class Applied(Function):
        pass

    before = CodeCacheKey(Applied)
    Applied._traits = 1  # type: ignore[assignment]
    assert CodeCacheKey(Applied).key == before.key
    assert before.guard.holds()


def test_code_that_is_nested_too_deeply_is_left_to_the_pickler():
    nested: list[Any] = []
    for _ in range(5_000):
        nested = [nested]
    looks = CodeCacheKey(enclosing(nested))
    assert not looks.sure
