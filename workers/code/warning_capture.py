"""Capture of warnings that user code issues in a worker's own process, to be issued again at the client.

The host collects them per segment and returns them in the record. A worker captures all that its user code does not
filter itself: the client's filters decide which are shown. In the client's process warnings are not captured."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, Final, cast

from raygrad.proto.ir.program import CapturedWarning

from .exceptions import pack_exception, unpack_exception

KEPT: Final = 64
"""The most distinct warnings of one segment: a loop over data may issue one for each element."""

TEXT_KEPT: Final = 4096
"""The most characters of a warning's text."""

_SELDOM_SHOWN: Final = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
"""Categories that Python's default filters ignore; ignored here while no segment runs."""


class WarningCollector:
    """Captures all warnings of this process from its construction on, for one segment at a time."""

    def __init__(self) -> None:
        self._node: Callable[[], int] | None = None
        """Returns the index of the running node, while a segment runs."""
        self._seen: dict[tuple[type[Warning], str, str, int], CapturedWarning] = {}
        self._left_out = 0
        self._show_anyway: Any = warnings.showwarning
        warnings.resetwarnings()
        warnings.simplefilter("always")
        warnings.showwarning = self._show

    def begin(self, node: Callable[[], int]) -> None:
        """Start collecting, for the nodes whose index in the graph `node` returns."""
        self._node = node
        self._seen.clear()
        self._left_out = 0

    def end(self) -> tuple[CapturedWarning, ...]:
        """Stop collecting; return the warnings, one per text and source line."""
        found = list(self._seen.values())
        if self._left_out and found:
            text = f"{self._left_out} more warnings of other texts or places came from here and were left out"
            more = UserWarning(text)
            found.append(found[-1]._replace(category="UserWarning", message=text, warning=pack_exception(more)))
        self._node = None
        self._seen.clear()
        return tuple(found)

    def _show(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
    ) -> None:
        """Replace `warnings.showwarning`, which Python calls with each warning that passes the filters."""
        if self._node is None:
            if not issubclass(category, _SELDOM_SHOWN):
                self._show_anyway(message, category, filename, lineno, file, line)
            return
        text = str(message)[:TEXT_KEPT]
        key = (category, text, filename, lineno)
        if key in self._seen:
            return
        if len(self._seen) >= KEPT:
            self._left_out += 1
            return
        warning = message if isinstance(message, Warning) else category(message)
        self._seen[key] = CapturedWarning(
            self._node(),
            category.__name__,
            text,
            filename,
            lineno,
            _module_of(filename, lineno),
            _pack_warning(warning, text),
        )


class ThreadWarningCollector(WarningCollector):
    """Captures the warnings of one host among several in a process that runs code for others: each segment's, by the
    thread that runs it."""

    def __init__(self) -> None:
        if not isinstance(cast("Any", warnings.showwarning), _Router):
            super().__init__()
            warnings.showwarning = _Router(self._show_anyway)
        self._node = None
        self._seen = {}
        self._left_out = 0
        self._show_anyway = warnings.showwarning

    def begin(self, node: Callable[[], int]) -> None:
        _running.collector = self
        super().begin(node)

    def end(self) -> tuple[CapturedWarning, ...]:
        _running.collector = None
        return super().end()


class _Router:
    """In the place of `warnings.showwarning`: gives a warning to the collector of the thread that issues it."""

    def __init__(self, otherwise: Any) -> None:
        self._otherwise = otherwise

    def __call__(self, message: Any, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
        collector: WarningCollector | None = getattr(_running, "collector", None)
        if collector is not None:
            collector._show(message, category, filename, lineno, *rest)
        elif not issubclass(category, _SELDOM_SHOWN):
            self._otherwise(message, category, filename, lineno, *rest)


_running = threading.local()
"""Per thread, the collector of the segment that it runs."""


def _pack_warning(warning: Warning, text: str) -> bytes:
    """Return a pickled warning; of the nearest built-in type, with its text alone, if it is large or cannot be
    rebuilt."""
    packed = pack_exception(warning)
    if len(packed) <= 2 * TEXT_KEPT and type(unpack_exception(packed)) is type(warning):
        return packed
    nearest = next(cls for cls in type(warning).__mro__ if cls.__module__ == "builtins")
    return pack_exception(nearest(text if nearest is type(warning) else f"{type(warning).__name__}: {text}"))


def _module_of(filename: str, line: int) -> str:
    """Return the module for which a warning was issued, since filters may match it; empty if it has no running
    frame."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_lineno == line and frame.f_code.co_filename == filename:
            return str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    return ""


def unpack_warning(warned: CapturedWarning) -> Warning:
    """Return a warning as issued; a UserWarning that names its type if that cannot be imported here."""
    error = unpack_exception(warned.warning)
    return error if isinstance(error, Warning) else UserWarning(f"{warned.category}: {warned.message}")
