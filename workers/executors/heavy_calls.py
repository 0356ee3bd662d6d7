"""Heavy calls: those that the in-process executor gives to their worker's own thread, where there are several workers.

A hop to another thread costs 55 µs. A call is heavy if its program took longer than that is worth, in its latest run,
or is predicted to before there was one. Where user code stays on one thread, calls that contain any are never heavy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from raygrad.proto.ir.program import Program

HEAVY_SECONDS: Final = 1e-3
"""A call that takes as long is worth a hop."""

FIRST_RUN_SECONDS: Final = 20e-3
"""What the first run of a program may take for compiling its steps and for imports: less than that says nothing."""


class HeavyCalls:
    """What is known of the times of calls in one process."""

    def __init__(self, *, with_user_code: bool = True) -> None:
        """`with_user_code`: calls that contain user code may hop."""
        self._with_user_code = with_user_code
        self._staying: set[bytes] = set()
        """By their keys, programs whose calls stay on the threads that wait."""
        self._ran: set[bytes] = set()
        self._seconds: dict[bytes, float] = {}
        """By key of a program, the seconds of its latest run, if they say something."""

    def load(self, key: bytes, program: Program) -> None:
        """Note whether a program contains user code, or code under filters of `warnings` of its own: these are the
        process's, and put in force by threads that wait."""
        code: list[Any] = [step.node for step in program.steps if step.node.fn.startswith("@")]
        filtered = any([entry[0] == "warnings" for node in code for entry in node.settings])
        if filtered or (code and not self._with_user_code):
            self._staying.add(key)

    def forget(self, keys: Iterable[bytes]) -> None:
        """Forget programs that no call will name any more."""
        self._staying.difference_update(keys)
        self._ran.difference_update(keys)
        for key in keys:
            self._seconds.pop(key, None)

    def may_hop(self, key: bytes) -> bool:
        """Tell whether calls of a program may run on a worker's own thread."""
        return key not in self._staying

    def is_heavy(self, key: bytes, predicted: float) -> bool:
        """Tell whether a call of a loaded program, predicted to take so many seconds, is worth a hop."""
        return key not in self._staying and self._seconds.get(key, predicted) >= HEAVY_SECONDS

    def ran(self, key: bytes, seconds: float) -> None:
        """Note that a call has run to its end."""
        if key in self._ran or seconds >= FIRST_RUN_SECONDS:
            self._seconds[key] = seconds
        self._ran.add(key)
