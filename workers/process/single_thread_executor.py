"""A single-thread executor: runs functions of other threads on one thread, so that user code finds its thread-locals.

The actor runs every call on it, one at a time, inside of the call sequencer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class SingleThreadExecutor:
    """A daemon thread that calls functions for other threads, one at a time."""

    def __init__(self, name: str) -> None:
        self._asked = threading.Lock()
        self._asked.acquire()
        self._done = threading.Lock()
        self._done.acquire()
        self._function: Callable[[], Any] | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the thread; return its result or raise its error. One caller at a time."""
        if threading.current_thread() is self._thread:
            return function()
        self._function = function
        self._asked.release()
        self._done.acquire()
        result, error = self._result, self._error
        self._function = self._result = self._error = None
        if error is not None:
            raise error
        return cast(T, result)

    def _serve(self) -> None:
        while True:
            self._asked.acquire()
            function = cast("Callable[[], Any]", self._function)
            try:
                self._result = function()
            except BaseException as error:
                self._error = error
            del function
            self._done.release()
