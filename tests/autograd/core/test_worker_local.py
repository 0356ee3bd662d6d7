"""What workers make once and keep: eagerly, in process by reference and by value."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest

import raygrad as rg


class Solver:
    """Something that cannot travel."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.scale = 3.0


solver = rg.worker_local(Solver)


class Scaled(rg.autograd.Function):
    """Uses the solver in forward and in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        rg.emit("solver", id(solver()))
        with solver().lock:
            return x * solver().scale

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        rg.emit("solver", id(solver()))
        return grad * solver().scale


class Counting(rg.autograd.Function):
    """Says how often the worker's value was made."""

    counts = rg.worker_local(lambda: [0])

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        count = Counting.counts()
        count[0] += 1
        rg.emit("count", count[0])
        return x + 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def test_h24_outside_of_a_session_the_process_has_one_value():
    handle = rg.worker_local(dict)
    assert handle() is handle()
    assert rg.worker_local(dict)() is not handle()


def test_h24_threads_that_ask_at_once_get_one_value():
    gate, values = threading.Barrier(4), []
    handle = rg.worker_local(object)

    def ask() -> None:
        gate.wait(10)
        values.append(handle())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(values) == 4
    assert len({id(value) for value in values}) == 1


@pytest.mark.parametrize("strict", [False, True])
def test_h24_a_worker_makes_it_once_for_forward_backward_and_later_runs(strict: bool):
    eager = solver()
    seen: list[int] = []
    with rg.Session(workers=1, strict=strict) as session:
        session.on("solver", seen.append)
        for _ in range(3):
            x = rg.tensor(np.arange(3.0), requires_grad=True)
            y = Scaled.apply(Scaled.apply(x))
            y.sum().backward()
            assert x.grad is not None
            assert x.grad.tolist() == [9.0, 9.0, 9.0]
    assert len(seen) == 12
    assert len(set(seen)) == 1
    assert seen[0] != id(eager)
    assert solver() is eager


def test_h24_each_worker_has_its_own_and_a_new_session_begins_anew():
    for _ in range(2):
        seen: list[int] = []
        with rg.Session(workers=2) as session:
            session.on("count", seen.append)
            x = rg.ones(2)
            for worker in (0, 1, 0):
                with rg.place(worker=worker):
                    Counting.apply(x).tolist()
        assert sorted(seen) == [1, 1, 2]


def test_h24_only_the_factory_travels():
    handle = rg.worker_local(dict)
    value = handle()
    copy = pickle.loads(pickle.dumps(handle))
    assert copy() == value
    assert copy() is not value


def test_h24_a_factory_that_fails_is_asked_again():
    tries: list[int] = []

    def factory() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return 7

    handle = rg.worker_local(factory)
    with pytest.raises(ValueError, match="not yet"):
        handle()
    assert handle() == 7
    assert handle() == 7
    assert len(tries) == 2


def test_h24_a_factory_that_asks_for_itself_is_told_so():
    handle: Any = rg.worker_local(lambda: handle())
    with pytest.raises(RuntimeError, match="asks for the value that it is making"):
        handle()


def test_h24_the_factory_has_to_be_a_function():
    with pytest.raises(TypeError, match=r"expects a function without arguments.*got int"):
        rg.worker_local(3)  # pyright: ignore[reportArgumentType]
