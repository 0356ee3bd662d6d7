"""The points of a worker at which faults may be injected; without a hook they cost one look per call.

The hook is the user's (`raygrad.chaos`) and decides what happens. Here is what a worker promises to call, and where."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, Protocol, TypeAlias

from ..interpreter.compiled_steps import CompiledStep, Execute

PointName: TypeAlias = Literal["call", "node", "stored", "reply"]
"""A call begins; a node is about to run; the objects of a call are made, and its reply has not left; its reply has
left, which only a worker in a process of its own can tell."""

POINTS: Final[tuple[PointName, ...]] = ("call", "node", "stored", "reply")

REPLY_SECONDS: Final = 0.05
"""Seconds after the end of a message's calls at which its reply is taken to have left."""


class FaultHook(Protocol):
    """What a worker calls at its points. What it raises at one counts as an error of user code."""

    def reached(self, point: PointName) -> None:
        """Do what is to happen here, if anything is."""
        ...


class FaultNotes(Protocol):
    """Where hooks note what happens, so that the client can read it, whatever becomes of the worker."""

    def add(self, text: str) -> None:
        """Note something. Called in the worker."""
        ...

    def read(self) -> list[tuple[float, str]]:
        """Return what was noted, in order, each with its time by `time.time` of the worker.

        Raises:
            ExecutionError: it cannot be read any more.
        """
        ...

    def clear(self) -> None:
        """Forget what was noted: nobody will read it any more."""
        ...


class LocalNotes:
    """Notes in this process."""

    def __init__(self) -> None:
        self._texts: list[tuple[float, str]] = []

    def add(self, text: str) -> None:
        """See `FaultNotes`."""
        self._texts.append((time.time(), text))

    def read(self) -> list[tuple[float, str]]:
        """See `FaultNotes`."""
        return list(self._texts)

    def clear(self) -> None:
        """See `FaultNotes`."""
        self._texts.clear()


def watched_steps(steps: Iterable[CompiledStep], hook: FaultHook) -> Iterator[CompiledStep]:
    """Return steps of which each calls the hook before its node runs."""
    for execute, frees in steps:

        def run(slots: list[Any], execute: Execute = execute) -> None:
            hook.reached("node")
            execute(slots)

        yield run, frees
