from __future__ import annotations

import sys
import threading

import pytest

from raygrad.workers.process.single_thread_executor import SingleThreadExecutor


def test_what_is_called_runs_on_the_one_thread_and_its_result_comes_back():
    one = SingleThreadExecutor("mine")
    assert one.call(lambda: threading.current_thread().name) == "mine"
    local = threading.local()
    one.call(lambda: setattr(local, "left", 5))
    assert one.call(lambda: local.left) == 5
    with pytest.raises(AttributeError):
        _ = local.left


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt()])
def test_what_it_raises_is_raised_to_the_caller_and_the_thread_goes_on(error: BaseException):
    one = SingleThreadExecutor("mine")

    def raises() -> None:
        raise error

    for _ in range(2):
        with pytest.raises(type(error)) as caught:
            one.call(raises)
        assert caught.value is error
    assert one.call(lambda: 1) == 1


def test_a_call_from_the_thread_itself_is_a_plain_call():
    one = SingleThreadExecutor("mine")
    assert one.call(lambda: one.call(threading.current_thread)) is one.call(threading.current_thread)


def test_nothing_of_a_call_is_kept_after_it():
    one = SingleThreadExecutor("mine")
    result = object()
    before = sys.getrefcount(result)
    one.call(lambda: result)
    assert sys.getrefcount(result) == before
