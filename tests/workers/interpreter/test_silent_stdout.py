from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from raygrad.workers.interpreter.silent_stdout import silent_stdout


def test_only_the_thread_inside_prints_nothing(capsys: pytest.CaptureFixture[str]):
    before = sys.stdout
    with silent_stdout():
        print("silenced")
        other = threading.Thread(target=print, args=("heard",))
        other.start()
        other.join()
        with silent_stdout():
            print("silenced too")
        sys.stdout.writelines(["still ", "silenced"])
    print("heard as well")
    assert sys.stdout is before
    assert capsys.readouterr().out == "heard\nheard as well\n"


def test_blocks_of_two_threads_may_end_in_any_order():
    before = sys.stdout
    entered, leave = threading.Event(), threading.Event()

    def inside() -> None:
        with silent_stdout():
            entered.set()
            assert leave.wait(20)

    other = threading.Thread(target=inside)
    with silent_stdout():
        other.start()
        assert entered.wait(20)
    leave.set()
    other.join()
    assert sys.stdout is before


def test_a_stdout_that_code_puts_in_its_place_stays(monkeypatch: pytest.MonkeyPatch):
    stands: Any = object()
    with silent_stdout():
        monkeypatch.setattr(sys, "stdout", stands)
    assert sys.stdout is stands
