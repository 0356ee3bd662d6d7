"""The cyclic garbage collector while a backward graph grows: the user's settings, and the user's garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.graph_collections import graph_grew

START = np.linspace(0.1, 0.9, 4)

SETTINGS = [(True, (700, 10, 10)), (True, (123, 4, 5)), (True, (50_000, 20, 100)), (False, (700, 10, 10))]


class Cycle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


class Watching(rg.autograd.Function):
    """A product that notes the collector's settings in forward and backward, and leaves garbage behind."""

    seen: set[Any] = set()  # noqa: RUF012
    left: list[weakref.ref[Cycle]] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        Watching.note()
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        Watching.note()
        x, y = ctx.saved_tensors
        return grad * y, grad * x

    @staticmethod
    def note() -> None:
        Watching.seen.add((gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()))
        Watching.left.append(weakref.ref(Cycle()))


@pytest.fixture(autouse=True)
def collector() -> Generator[None]:
    """The collector as a program finds it, and nothing noted."""
    before = gc.isenabled(), gc.get_threshold()
    frozen = gc.get_freeze_count()  # the whole test run has frozen modules
    gc.unfreeze()
    graph_grew.__self__.__init__()
    Watching.seen.clear()
    Watching.left.clear()
    yield
    (gc.enable if before[0] else gc.disable)()
    gc.set_threshold(*before[1])
    if frozen:
        gc.freeze()


def chain(length: int) -> Any:
    """Return the end of a chain of custom nodes and built-in ones."""
    y = rg.tensor(START, requires_grad=True)
    weight = rg.tensor(np.ones(4), requires_grad=True)
    for _ in range(length // 2):
        y = Watching.apply(y, weight) + weight
    return y


def products(length: int) -> Any:
    """Return the end of a chain of built-in nodes."""
    y = rg.tensor(START, requires_grad=True)
    weight = rg.tensor(np.ones(4), requires_grad=True)
    for _ in range(length):
        y = y * weight
    return y


@pytest.mark.parametrize(("enabled", "threshold"), SETTINGS)
def test_user_code_sees_the_users_settings(enabled: bool, threshold: tuple[int, int, int]):
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*threshold)
    y = chain(600)
    y.register_hook(lambda grad: Watching.note())
    y.sum().backward()
    assert Watching.seen == {(enabled, threshold, 0)}
    assert (gc.isenabled(), gc.get_threshold()) == (enabled, threshold)


def test_nothing_is_collected_while_the_user_has_switched_it_off():
    gc.disable()
    chain(600).sum().backward()
    assert all(one() is not None for one in Watching.left)


def test_garbage_that_user_code_leaves_is_collected_while_the_graph_grows():
    gc.collect()
    y = chain(2000)
    alive = sum(one() is not None for one in Watching.left)
    assert alive < 200, f"{alive} of {len(Watching.left)}"
    y.sum().backward()


def test_garbage_that_grew_old_is_collected_in_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("raygrad.autograd.core.graph_collections.SHARE", 0)
    gc.collect()
    old = [Cycle() for _ in range(1000)]
    keep = chain(600)  # makes them old
    left = [weakref.ref(one) for one in old]
    old.clear()
    graphs = []
    while any(one() is not None for one in left):
        graphs.append(chain(2000))
        assert len(graphs) < 100
    assert keep is not None


def test_there_is_no_full_collection_that_the_user_has_not_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("raygrad.autograd.core.graph_collections.SHARE", 0)
    gc.set_threshold(700, 10, 1_000_000)
    before = gc.get_stats()[2]["collections"]
    graphs = [products(5000) for _ in range(10)]
    assert gc.get_stats()[2]["collections"] == before
    assert graphs


def test_a_collection_by_the_user_finds_all_garbage():
    y = chain(2000)
    gc.collect()
    assert not [one for one in Watching.left if one() is not None]
    y.sum().backward()


def test_graphs_in_a_cycle_with_their_context_are_collected():
    class Holding(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    x = rg.tensor(START, requires_grad=True)
    nodes = []
    for _ in range(100):
        y = Holding.apply(x)
        y.grad_fn.itself = y
        nodes.append(weakref.ref(y))
        del y
    gc.collect()
    assert not [one for one in nodes if one() is not None]


def test_objects_that_the_user_has_frozen_stay_frozen():
    gc.collect()
    gc.freeze()
    frozen = gc.get_freeze_count()
    products(2000).sum().backward()
    assert gc.get_freeze_count() > frozen / 2  # some are released by their owners


def test_a_long_chain_is_not_walked_again_and_again():
    """Young and middle-aged objects are collected as ever, and hardly ever all objects of the process."""
    gc.collect()
    ran = [0, 0, 0]

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            ran[info["generation"]] += 1

    gc.callbacks.append(note)
    try:
        products(10_000)
    finally:
        gc.callbacks.remove(note)
    assert ran[2] <= 1
    assert 5 < ran[1] < 30
    assert 50 < ran[0] < 500
