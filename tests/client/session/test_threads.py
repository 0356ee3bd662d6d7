"""Threads and a session: those that enter it record, and others are told that they do not (DR-16, EN-25)."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.core.modes import state
from raygrad.client.session.session import ambient
from raygrad.errors import SessionError


def in_thread(work: Callable[[], Any]) -> Any:
    """Return what `work` returns on a new thread, or raise what it raises."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


class Doubles(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


def computed() -> Any:
    return (rg.tensor([1.0, 2.0]) + 1.0).tolist()


def applied() -> Any:
    return Doubles.apply(rg.tensor([1.0, 1.5])).tolist()


def changed() -> Any:
    return rg.tensor([1.0, 2.0]).add_(1.0).tolist()


@pytest.mark.parametrize("work", [computed, applied, changed])
def test_a_thread_that_computes_outside_of_the_session_is_told_once(session: Any, work: Callable[[], Any]) -> None:
    with session, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            assert in_thread(work) == [2.0, 3.0]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda _: work(), range(8))) == [[2.0, 3.0]] * 8
    assert [one.filename for one in seen] == [__file__]
    text = str(seen[0].message)
    assert "outside of the session that is open in the thread 'MainThread'" in text
    assert "enter the same session in it (`with session:`)" in text


def test_nothing_is_said_of_a_thread_that_computes_before_or_after_a_session() -> None:
    assert in_thread(computed) == [2.0, 3.0]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(computed).result()  # a thread that is at home elsewhere
        with rg.Session():
            assert pool.submit(computed).result() == [2.0, 3.0]
    assert in_thread(computed) == [2.0, 3.0]


def test_tensors_of_the_session_are_recorded_on_any_thread(session: Any) -> None:
    with session:
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        y = Doubles.apply(x)
        assert in_thread(lambda: (y * rg.tensor([1.0, 3.0])).tolist()) == [2.0, 12.0]
        in_thread(y.sum().backward)
        assert x.grad.tolist() == [2.0, 2.0]


def test_a_thread_that_enters_the_session_records_and_leaves_it_open(session: Any) -> None:
    def work(number: int) -> Any:
        with session:
            assert ambient() is session
            y = Doubles.apply(rg.tensor([float(number)]))
            assert state.recorder is session._recorder
        assert ambient() is None
        return y

    with session:
        with ThreadPoolExecutor(3) as pool:
            made = list(pool.map(work, range(12)))
        assert ambient() is session
        again = Doubles.apply(made[3])
        assert [y.tolist() for y in made] == [[2.0 * number] for number in range(12)]
        assert again.tolist() == [12.0]
    with pytest.raises(SessionError, match="closed"):
        session.__enter__()


def test_a_block_inside_a_block_of_the_same_session_leaves_it_open(session: Any) -> None:
    with session:
        with session:
            y = Doubles.apply(rg.ones(2))
        assert ambient() is session
        z = Doubles.apply(y)
    assert z.tolist() == [4.0, 4.0]
    assert ambient() is None


def test_an_error_in_a_thread_does_not_discard_what_the_session_has_recorded(session: Any) -> None:
    def fails() -> None:
        with session:
            raise ValueError("in the thread")

    with session:
        y = Doubles.apply(rg.ones(2))
        with pytest.raises(ValueError, match="in the thread"):
            in_thread(fails)
    assert y.tolist() == [2.0, 2.0]


class Spreads(rg.autograd.Function):
    """Has threads of its own, as user code may."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(rg.tensor([1.0, 2.0]) * 3.0))
        thread.start()
        thread.join()
        return x + made[0]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def test_threads_of_user_code_are_not_meant(session: Any) -> None:
    with session:
        x = rg.tensor([1.0, 1.0], requires_grad=True)
        assert Spreads.apply(Spreads.apply(x)).tolist() == [7.0, 13.0]


@pytest.mark.ray
@pytest.mark.timeout(180)
def test_threads_on_ray_are_told_or_enter_the_session(ray_started: Any) -> None:
    with rg.Session("ray", workers=2) as session:

        def work(number: int) -> Any:
            with session:
                return Doubles.apply(rg.tensor([float(number)]))

        with ThreadPoolExecutor(3) as pool:
            assert [y.tolist() for y in pool.map(work, range(4))] == [[0.0], [2.0], [4.0], [6.0]]
        with pytest.warns(UserWarning, match="outside of the session"):
            in_thread(applied)
