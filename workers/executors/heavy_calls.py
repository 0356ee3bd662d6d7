"""Heavy calls: those that the in-process executor gives to their worker's own thread, where there are several workers.

A hop to another thread costs 55 µs. A call is heavy if its program took longer than that is worth, in its latest run;
before that, if it is predicted to, or contains user code that has not run yet, and may take hours.
"""

from __future__ import annotations

from typing import Any, Final

from raygrad.proto.ir.program import Program

HEAVY_SECONDS: Final = 1e-3
"""A call that takes as long is worth a hop."""

CODE_KEPT: Final = 4096
"""Pieces of user code that are remembered to have run: a bound for programs that define new ones again and again."""

_Code = frozenset[tuple[type[Any], str]]


class HeavyCalls:
    """What is known of the times of calls in one process."""

    def __init__(self) -> None:
        self._code: dict[bytes, _Code] = {}
        """By key of a program that has not run, its user code: kinds of node and names."""
        self._seconds: dict[bytes, float] = {}
        """By key of a program, the seconds of its latest run."""
        self._known: set[tuple[type[Any], str]] = set()
        """User code that has run: what is predicted of it was measured."""

    def load(self, key: bytes, program: Program) -> None:
        """Note the user code of a program."""
        nodes = [step.node for step in program.steps]
        self._code[key] = frozenset([(type(node), node.fn) for node in nodes if node.fn.startswith("@")])

    def is_heavy(self, key: bytes, predicted: float) -> bool:
        """Tell whether a call of a loaded program, predicted to take so many seconds, is worth a hop."""
        seconds = self._seconds.get(key)
        if seconds is None:
            return predicted >= HEAVY_SECONDS or not self._known.issuperset(self._code[key])
        return seconds >= HEAVY_SECONDS

    def ran(self, key: bytes, seconds: float) -> None:
        """Note that a call has run to its end."""
        self._seconds[key] = seconds
        code = self._code.pop(key, None)
        if code:
            if len(self._known) > CODE_KEPT:
                self._known.clear()
            self._known |= code
