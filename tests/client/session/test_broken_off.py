"""A session whose account of its work was broken off by an exception: it says so, and no wait is without end."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, cast

import pytest

import raygrad as rg
from raygrad.client.session.session import executor_of
from raygrad.errors import ExecutionError, SessionError
from raygrad.workers.executors import heavy_calls


class Doubles(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


class Alarm(Exception):
    """What a handler of signals raises, wherever the program is."""


def in_the_machine(session: Any) -> tuple[Any, str]:
    return session._driver._machine, "handle"


def in_the_driver(session: Any) -> tuple[Any, str]:
    return session._driver, "_take"


def before_a_call(session: Any) -> tuple[Any, str]:
    return type(cast("Any", executor_of(session))._workers[0].queue), "remove"


def after_a_call(session: Any) -> tuple[Any, str]:
    return executor_of(session), "_returned"


PLACES = [in_the_machine, in_the_driver, before_a_call, after_a_call]


@pytest.mark.parametrize("place", PLACES)
def test_what_is_raised_inside_the_account_ends_the_session_and_not_the_program(
    session: Any, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # calls run on this thread, also where a first one took long: what is raised on a worker's thread is not seen here
    monkeypatch.setattr(heavy_calls, "HEAVY_SECONDS", float("inf"))
    with session:
        made = Doubles.apply(rg.ones(1))
        assert made.tolist() == [2.0]
        later = Doubles.apply(made)

        def raises(*args: Any, **named: Any) -> Any:
            monkeypatch.undo()
            raise Alarm

        owner, name = place(session)
        monkeypatch.setattr(owner, name, raises)
        with pytest.raises(Alarm):
            later.tolist()
        for _ in range(2):
            with pytest.raises(ExecutionError, match="open a new one"):
                later.tolist()
            with pytest.raises(ExecutionError, match="open a new one"):
                Doubles.apply(made).tolist()
        assert made.tolist() == [2.0]
        with pytest.raises(ExecutionError, match="open a new one"):
            session.close()
    with pytest.raises(SessionError):
        later.tolist()
    with rg.Session():
        assert Doubles.apply(rg.ones(1)).tolist() == [2.0]


def test_no_depth_of_recursion_makes_a_wait_endless() -> None:
    def deep(levels: int) -> Any:
        return deep(levels - 1) if levels else Doubles.apply(rg.ones(1)).tolist()

    session = rg.Session(timeout=20.0).start()
    try:
        base = len(list(iter_frames()))
        for levels in range(sys.getrecursionlimit() - base - 120, sys.getrecursionlimit() - base):
            with contextlib.suppress(RecursionError, ExecutionError):  # which say "open a new one"
                assert deep(levels) == [2.0]
    finally:
        session.close(discard=True)
    assert deep(1) == [2.0]


def iter_frames() -> Any:
    frame: Any = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
