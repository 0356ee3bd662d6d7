"""A long wait shows how far it is: on request, on a terminal, and never where it is turned off."""

from __future__ import annotations

import io
import sys
import time

import pytest

import raygrad as rg


class Slow(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.3)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def wait_for_some() -> None:
    x = rg.ones(2)
    for step in range(4):
        with rg.place(worker=step % 2):
            x = Slow.apply(x)
    assert x.numpy().tolist() == [16.0, 16.0]


def test_a_bar_is_shown_on_request_and_taken_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with rg.Session(workers=2) as session:
        with session.progress():
            wait_for_some()
        shown = screen.getvalue()
        wait_for_some()  # a short one shows nothing unasked
    assert "segment" in shown
    assert shown == screen.getvalue()


def test_nothing_is_shown_where_it_is_turned_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setenv("RAYGRAD_PROGRESS", "0")
    with rg.Session(workers=2) as session, session.progress():
        wait_for_some()
    assert screen.getvalue() == ""


def test_a_long_wait_shows_a_bar_on_a_terminal_and_none_elsewhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("raygrad.client.submission.wait_progress.LONG_WAIT", 0.1)
    for screen, shows in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", screen)
        with rg.Session(workers=2):
            wait_for_some()
        assert ("segment" in screen.getvalue()) == shows
