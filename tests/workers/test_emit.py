"""Emits go to the sink of the thread that runs the node, and nowhere else."""

from __future__ import annotations

import threading
from typing import Any

import raygrad as rg
from raygrad.workers.emit import emitting_to


def test_without_a_sink_emit_does_nothing() -> None:
    rg.emit("name", 1)


def test_sinks_nest_and_none_discards() -> None:
    heard: list[tuple[str, Any]] = []
    with emitting_to(lambda name, value: heard.append((name, value))):
        rg.emit("a", 1)
        with emitting_to(None):
            rg.emit("b", 2)
        rg.emit("c", 3)
    rg.emit("d", 4)
    assert heard == [("a", 1), ("c", 3)]


def test_other_threads_do_not_share_the_sink() -> None:
    heard: list[str] = []
    with emitting_to(lambda name, value: heard.append(name)):
        thread = threading.Thread(target=rg.emit, args=("elsewhere", 1))
        thread.start()
        thread.join(10)
    assert heard == []
