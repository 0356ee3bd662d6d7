"""What forward changes in an argument is never lost unsaid: a container is refused, with the remedy (FN-07)."""

from __future__ import annotations

import array
import functools
import random
import warnings
from collections import ChainMap, UserList, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import raygrad as rg
from raygrad.errors import AutogradError


class Derived(list[int]):
    note = 0


CHANGES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "list": ([1.0], lambda it: it.append(2.0)),
    "list of words": (["a"], lambda it: it.append("b")),
    "element": ([1.0, 2.0], lambda it: it.__setitem__(0, 5.0)),
    "dict": ({"a": 1}, lambda it: it.update(b=2)),
    "value": ({"a": 1}, lambda it: it.update(a=2)),
    "set": ({1}, lambda it: it.add(2)),
    "deque": (deque([1]), lambda it: it.appendleft(2)),
    "bytearray": (bytearray(b"a"), lambda it: it.extend(b"b")),
    "array.array": (array.array("d", [1.0]), lambda it: it.append(2.0)),
    "derived": (Derived([1]), lambda it: setattr(it, "note", 2)),
    "list in an array of objects": (np.array([[1], None], object), lambda it: it[0].append(2)),
    "nested": ([{"a": [1]}], lambda it: it[0]["a"].append(2)),
    "in a tuple": (([1],), lambda it: it[0].append(2)),
    "array in a list": ([np.zeros(2)], lambda it: it[0].__setitem__(0, 1.0)),
    "tensor in a list": ([rg.ones(2)], lambda it: it.append(rg.ones(2))),
}


class Changes(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, name: str, value: Any) -> Any:
        CHANGES[name][1](value)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2, None, None


@pytest.mark.parametrize("name", CHANGES)
def test_fn_07_a_container_that_forward_changes_is_refused(session: Any, name: str) -> None:
    value = CHANGES[name][0]
    before = str(value)
    with session, pytest.raises(AutogradError, match=r"Changes\.forward changed argument 2.*rg\.emit"):
        Changes.apply(rg.ones(2, requires_grad=True), name, value).tolist()
    assert str(value) == before


def test_fn_07_an_array_that_forward_writes_to_is_refused(session: Any) -> None:
    class Writes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, array: Any) -> Any:
            array[0] = 1.0
            return x * 2

    array = np.zeros(2)
    with session, pytest.raises(AutogradError, match="Writes"):
        Writes.apply(rg.ones(2), array).tolist()
    assert array.tolist() == [0, 0]


@dataclass
class Data:
    items: list[int]


class Slotted:
    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items = [1]

    def add(self) -> None:
        self.items.append(2)


def gradient(function: Any, value: Any) -> Any:
    """Return the gradient of a Function that is given another argument, after a look at its output."""
    x = rg.ones(2, requires_grad=True)
    y = function.apply(x, value)
    assert y.tolist() == [2, 2]
    y.sum().backward()
    assert x.grad is not None
    return x.grad.tolist()


WARNED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "namespace": (lambda: SimpleNamespace(a=1), lambda it: setattr(it, "a", 2)),
    "data class": (lambda: Data([1]), lambda it: it.items.append(2)),
    "slots": (Slotted, lambda it: it.add()),
    "slot": (Slotted, lambda it: setattr(it, "items", [])),
    "bound method": (lambda: Slotted().add, lambda it: it()),
    "partial": (lambda: functools.partial(Slotted.add, Slotted()), lambda it: it()),
    "user list": (lambda: UserList([1]), lambda it: it.append(2)),
    "chain map": (lambda: ChainMap({"a": 1}), lambda it: it.update(b=2)),
    "iterator": (lambda: iter([1, 2]), next),
    "generator": (lambda: np.random.default_rng(0), lambda it: it.random()),
    "nested generator": (lambda: [np.random.RandomState(0)], lambda it: it[0].random()),
    "generator of Python": (lambda: random.Random(0), lambda it: it.random()),
    "array of a library's object": (lambda: csr_array(np.eye(2)), lambda it: it.data.__setitem__(0, 5.0)),
}


@pytest.mark.parametrize("name", WARNED)
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_fn_07_what_changes_in_an_object_is_warned_of(session: Any, name: str, phase: str) -> None:
    class Uses(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, value: Any) -> Any:
            ctx.value = value
            if phase == "forward":
                change(value)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if phase == "backward":
                change(ctx.value)
            return grad * 2, None

    make, change = WARNED[name]
    with session, pytest.warns(UserWarning, match=rf"Uses(\.{phase} changed|' draws from)"):
        assert gradient(Uses, make()) == [2, 2]


@pytest.mark.parametrize("name", CHANGES)
def test_fn_07_a_container_that_backward_changes_is_refused(session: Any, name: str) -> None:
    class Keeps(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, value: Any) -> Any:
            ctx.value, ctx.own = value, []
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            ctx.own.append(1)
            change(ctx.value)
            return grad * 2, None

    change = CHANGES[name][1]
    with session, pytest.raises(AutogradError, match=r"Keeps\.backward changed an argument.*'value'.*rg\.emit"):
        gradient(Keeps, CHANGES[name][0])


class Solver:
    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.cached: float | None = None

    def factor(self) -> float:
        if self.cached is None:
            self.cached = 2.0
        return self.cached


class Solves(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, solver: Any, fill: bool) -> Any:
        if fill:
            solver.seen["x"] = 1
        return x * solver.factor()


@pytest.mark.parametrize("fill", [True, False])
def test_fn_07_what_an_object_changes_about_itself_is_warned_of(session: Any, fill: bool) -> None:
    with session:
        with pytest.warns(UserWarning, match=r"Solves\.forward changed argument 1, an object"):
            assert Solves.apply(rg.ones(2), Solver(), fill).tolist() == [2, 2]


def test_fn_07_arguments_that_are_only_read_cost_no_warning(session: Any) -> None:
    class Reads(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, options: Any, *, weights: Any) -> Any:
            ctx.options = options
            options = dict(options, more=1)
            return x * options["rate"] * weights[0][1]

    with session, warnings.catch_warnings():
        warnings.simplefilter("error")
        for rate in (2.0, 3.0):
            options = {"rate": rate, "names": ["a"], "nan": [float("nan")]}
            assert Reads.apply(rg.ones(1), options, weights=[np.arange(2.0)]).tolist() == [rate]
