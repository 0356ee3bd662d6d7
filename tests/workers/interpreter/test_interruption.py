"""The gate through which calls are interrupted: user code is, at any time, and nothing else."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from raygrad.proto.ir.program import Call, Program, Step
from raygrad.workers.interpreter.compilation import Compilation
from raygrad.workers.interpreter.interruption import InterruptGate, SegmentInterrupted
from raygrad.workers.interpreter.user_steps import user_step

from ...graph_nodes import function_node

CALL = Call(1, 0, 0, b"", ())


def guarded(gate: InterruptGate, runs: Any) -> Any:
    """Return what a host runs of a step with this user code, which is pure."""
    node = function_node("@f00d", (), (0,), pure=True)
    host: Any = SimpleNamespace(gate=gate, report=SimpleNamespace(emits=None))
    return user_step(runs, node, Step(0, node, (0,), ()), Compilation(Program(1, (), (), (), (), (), (), (), ()), host))


def spin(until: Any = lambda: False) -> None:
    end = time.monotonic() + 20.0
    while not until():
        assert time.monotonic() < end


def interrupted_while(gate: InterruptGate, code: Any, call: Call = CALL) -> list[BaseException]:
    """Run a step on another thread, interrupt it once it runs, and return what it raised."""
    raised: list[BaseException] = []
    begun = threading.Event()

    def runs(slots: Any) -> None:
        begun.set()
        code()

    def called() -> None:
        gate.begin(CALL)
        try:
            guarded(gate, runs)([])
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=called)
    thread.start()
    assert begun.wait(20.0)
    gate.interrupt(call)
    thread.join(30.0)
    assert not thread.is_alive()
    return raised


def test_user_code_is_interrupted_in_the_middle() -> None:
    (error,) = interrupted_while(InterruptGate(), spin)
    assert isinstance(error, SegmentInterrupted)


def test_user_code_that_takes_no_notice_is_ended_after_its_node() -> None:
    def stubborn() -> None:
        try:
            spin()
        except KeyboardInterrupt:
            return

    (error,) = interrupted_while(InterruptGate(), stubborn)
    assert isinstance(error, SegmentInterrupted)


def test_another_call_than_the_one_that_was_meant_goes_on() -> None:
    assert interrupted_while(InterruptGate(), lambda: None, Call(2, 0, 0, b"", ())) == []


def test_nothing_is_raised_outside_of_user_code_and_the_next_call_is_undisturbed() -> None:
    gate = InterruptGate()
    gate.begin(CALL)
    gate.interrupt(CALL)
    spin(iter([False] * 1000 + [True]).__next__)
    with pytest.raises(SegmentInterrupted):
        gate.check()
    gate.begin(CALL)
    guarded(gate, lambda slots: None)([])
    gate.check()


def test_an_interruption_at_any_moment_is_raised_by_its_call_alone() -> None:
    gate = InterruptGate()
    done = threading.Event()
    stray: list[BaseException] = []
    counts = [0, 0]

    def calls() -> None:
        try:
            while not done.is_set():
                gate.begin(Call(1, counts[0], 0, b"", ()))
                try:
                    guarded(gate, lambda slots: None)([])
                except SegmentInterrupted:
                    counts[1] += 1
                gate.call = None
                counts[0] += 1
        except BaseException as error:
            stray.append(error)

    thread = threading.Thread(target=calls)
    thread.start()
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        call = gate.call
        if call is not None:
            gate.interrupt(call)
    done.set()
    thread.join(20.0)
    assert not stray
    assert counts[0] > counts[1] > 0
