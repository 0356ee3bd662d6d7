"""Functions that run until they are stopped, and what tests of cancellation share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import raygrad as rg

SECONDS = 25.0
"""How long work runs that nobody stops: longer than a test may take to notice."""


class Spins(rg.autograd.Function):
    """Doubles after so many seconds in Python."""

    @staticmethod
    def forward(ctx: Any, x: Any, seconds: float) -> Any:
        rg.emit("begun", seconds)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0, None


class Sleeps(rg.autograd.Function):
    """Doubles after so many seconds outside of Python."""

    @staticmethod
    def forward(ctx: Any, x: Any, seconds: float) -> Any:
        time.sleep(seconds)
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0, None


class SpinsBack(rg.autograd.Function):
    """Doubles; its backward takes so many seconds in Python."""

    @staticmethod
    def forward(ctx: Any, x: Any, seconds: float) -> Any:
        ctx.seconds = seconds
        y = x * 2.0
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        end = time.monotonic() + ctx.seconds
        while time.monotonic() < end:
            pass
        return grad * 2.0, None


class Stubborn(rg.autograd.Function):
    """Takes no notice of interrupts, node after node."""

    @staticmethod
    def forward(ctx: Any, x: Any, seconds: float) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                while time.monotonic() < end:
                    pass
            except KeyboardInterrupt:
                return x * 1.0
        return x * 2.0


def learn(*functions: Any) -> None:
    """Have the session learn what these Functions return, so that later applications do not wait."""
    for function in functions:
        function.apply(rg.ones(3), 0.0).tolist()


def later(seconds: float, act: Callable[[], Any]) -> threading.Thread:
    """Act on another thread, after some time."""
    thread = threading.Timer(seconds, act)
    thread.start()
    return thread


def check_idle(session: Any) -> None:
    """Check that nothing runs or is held any more beside what has finished."""
    machine = session._driver._machine.state
    end = time.monotonic() + 20.0
    while any(not run.finished for run in machine.runs.values()) and time.monotonic() < end:
        session._waiter.poll()
        time.sleep(0.005)
    assert not machine.stopping
    assert all(run.finished for run in machine.runs.values())
    assert not any(machine.in_flight.values())
