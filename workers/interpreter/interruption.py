"""Interruption of user code from another thread: the gate of a worker's host.

A call is interrupted between two of its nodes or, while a node runs user code, by an exception raised asynchronously in
its thread. The gate is open while user code runs, and only then: raygrad's own account of a call is never broken off.
An interruption that arrives as the gate closes is taken back, and raised at the gate.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raygrad.proto.ir.program import Call

_raise_in: ctypes._FuncPointer = ctypes.pythonapi.PyThreadState_SetAsyncExc


class SegmentInterrupted(KeyboardInterrupt):
    """Raised in user code whose run was cancelled or has passed a deadline: a Ctrl-C for this code alone."""


class InterruptGate:
    """The gate of one host, whose calls run one at a time, on any thread."""

    __slots__ = ("_lock", "_thread", "call", "open", "requested")

    def __init__(self) -> None:
        self.call: Call | None = None
        """The call that runs."""
        self.requested = False
        """Whether the call that runs is to end."""
        self.open = False
        """Whether user code is running."""
        self._thread = 0
        self._lock = threading.Lock()

    def begin(self, call: Call) -> None:
        """Enter that a call begins on this thread."""
        with self._lock:
            self.requested = self.open = False
            self._thread = threading.get_ident()
            self.call = call

    def check(self) -> None:
        """Raise SegmentInterrupted if the call is to end, and nothing later."""
        if self.requested:
            self.open = False
            with self._lock:  # what another thread raises in this one it has raised now
                _raise_in(ctypes.c_ulong(self._thread), None)
            raise SegmentInterrupted("the run of this segment was cancelled, or has passed a deadline")

    def interrupt(self, call: Call) -> None:
        """Have a call end, if it is the one that runs; once per call."""
        with self._lock:
            if self.requested or self.call is not call:
                return
            self.requested = True
            if self.open and self._thread != threading.get_ident():  # user code that cancels its own run goes on
                _raise_in(ctypes.c_ulong(self._thread), ctypes.py_object(SegmentInterrupted))
