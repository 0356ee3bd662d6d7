"""Gradient modes and the state of a thread (MD)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.core.modes import ThreadState, state


def vector(T: Any, *values) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=True)


def on(T: Any) -> bool:
    """Whether an operation is recorded just now."""
    recorded = (vector(T, 1) * 2).requires_grad
    assert recorded is T.is_grad_enabled()
    return recorded


def test_md_01_context_managers_nest_and_restore(T: Any):
    with T.no_grad():
        assert not on(T)
        with T.enable_grad():
            assert on(T)
            with T.set_grad_enabled(False):
                assert not on(T)
            assert on(T)
        assert not on(T)
    assert on(T)


def test_md_01_they_restore_on_exceptions(T: Any):
    for make in (T.no_grad, lambda: T.set_grad_enabled(False)):
        with pytest.raises(KeyError), make():
            raise KeyError
        assert on(T)


def test_md_01_one_object_can_be_entered_again(T: Any):
    mode = T.no_grad()
    for _ in range(2):
        with mode:
            assert not on(T)
        assert on(T)


def test_md_01_one_object_can_be_entered_while_it_is():
    mode = rg.no_grad()
    with mode:
        with mode:
            assert not on(rg)
        assert not on(rg)
    assert on(rg)


def test_md_01_set_grad_enabled_acts_at_once_as_a_call(T: Any):
    T.set_grad_enabled(False)
    assert not on(T)
    T.set_grad_enabled(True)
    assert on(T)


@pytest.mark.parametrize("parentheses", [False, True])
def test_md_01_decorators(T: Any, parentheses):
    @(T.no_grad() if parentheses else T.no_grad)
    def off():
        """Say whether recording is on."""
        return on(T)

    @(T.enable_grad() if parentheses else T.enable_grad)
    def back():
        return on(T)

    @T.no_grad()
    def both():
        return on(T), back()

    assert off() is False
    assert back() is True
    assert both() == (False, True)
    assert off.__name__ == "off"
    assert off.__doc__ == "Say whether recording is on."
    assert on(T)


def test_md_01_set_grad_enabled_as_a_decorator_does_not_act_at_once(T: Any):
    @T.set_grad_enabled(False)
    def off():
        return on(T)

    assert on(T)
    assert off() is False
    assert on(T)


def test_md_01_decorated_generators_apply_the_mode_to_their_own_code(T: Any):
    seen = []

    @T.no_grad()
    def generator():
        try:
            while True:
                try:
                    sent = yield on(T)
                    seen.append((sent, on(T)))
                except KeyError:
                    seen.append(("thrown", on(T)))
        finally:
            seen.append(("closed", on(T)))

    running = generator()
    assert next(running) is False
    assert on(T)
    assert running.send("sent") is False
    assert on(T)
    assert running.throw(KeyError()) is False
    assert on(T)
    running.close()
    assert seen == [("sent", False), ("thrown", False), ("closed", False)]


def test_md_01_decorated_generators_return_values_and_propagate_exceptions(T: Any):
    @T.no_grad()
    def generator():
        yield 1
        return 2

    def outer():
        result = yield from generator()
        yield ("returned", result)

    assert list(outer()) == [1, ("returned", 2)]

    @T.no_grad()
    def failing():
        yield 1
        raise KeyError("inside")

    running = failing()
    next(running)
    with pytest.raises(KeyError, match="inside"):
        next(running)
    assert on(T)


def test_md_01_decorated_coroutines_apply_the_mode_to_their_own_code():
    seen = []

    @rg.no_grad()
    async def off(turn: asyncio.Event):
        seen.append(("start", on(rg)))
        await turn.wait()
        seen.append(("end", on(rg)))
        return 7

    async def main():
        turn = asyncio.Event()
        task = asyncio.create_task(off(turn))
        await asyncio.sleep(0)
        seen.append(("between", on(rg)))
        turn.set()
        return await task

    assert asyncio.run(main()) == 7
    assert seen == [("start", False), ("between", True), ("end", False)]


def test_md_01_decorating_a_class_warns(T: Any):
    class Thing:
        def __init__(self):
            self.seen = on(T)

    with pytest.warns(FutureWarning, match=r"[Dd]ecorating"):
        make = T.no_grad()(Thing)
    assert make().seen is False
    assert on(T)


def test_md_02_a_new_thread_starts_with_recording_on(T: Any):
    seen = []
    with T.no_grad():
        thread = threading.Thread(target=lambda: seen.append(on(T)))
        thread.start()
        thread.join()
        assert not on(T)
    assert seen == [True]


def test_a_new_thread_has_no_session_and_no_pass_under_way():
    fresh: list[tuple[bool, object, int, bool]] = []

    def look() -> None:
        fresh.append((state.grad, state.recorder, state.passes, state.special))

    with rg.no_grad():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert fresh == [(True, None, 0, False)]


def test_what_one_thread_does_can_be_gone_on_with_by_another():
    taken = ThreadState()
    with rg.no_grad():
        parts = state.snapshot()
    taken.restore(parts)
    assert taken.grad is False
    assert taken.here is not state.here
