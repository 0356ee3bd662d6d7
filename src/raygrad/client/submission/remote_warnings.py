"""Remote warnings: warnings that user code issued on workers, issued again at the client.

The run listener takes them from records, and sync points issue them under the filters that held when their node was
recorded, with the file and line of their origin, once per run. Where these make an error of one, it failed on its
worker; if that did not know its class, `issue` raises it, and the other warnings are issued by the next call.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import Any

from raygrad.proto.ir.nodes import Settings
from raygrad.proto.ir.program import CapturedWarning, Record
from raygrad.tracebacks import add_note
from raygrad.workers.code.warning_capture import unpack_warning
from raygrad.workers.code.warning_filters import Filters, filtered_by, numbered_filters


class RemoteWarnings:
    """The warnings of one session that have arrived and were not issued yet."""

    def __init__(self, at_start: Filters | None = None) -> None:
        """`at_start` are the filters with which the session began, under which code was recorded whose settings name no
        others; None stands for those that are in force when warnings are issued."""
        self._at_start = at_start
        self._arrived: deque[tuple[Record, CapturedWarning, Filters | None]] = deque()
        self._seen: dict[int, set[tuple[str, str, str, int]]] = {}
        """Of each run under way: category, text, file and line of its warnings."""
        self._registries: dict[str, dict[Any, Any]] = {}
        """By file, where modules that are not loaded here would note which warnings were shown."""
        self._deferred = False

    def take(self, record: Record, settings_of: Callable[[int], Settings] | None = None) -> None:
        """A segment's record has arrived; `settings_of` returns the settings under which a node was recorded."""
        for warned in record.warned:
            seen = self._seen.setdefault(record.run, set())
            key = (warned.category, warned.message, warned.filename, warned.line)
            if key not in seen:
                seen.add(key)
                self._arrived.append((record, warned, self._filters(settings_of, warned.index)))

    def _filters(self, settings_of: Callable[[int], Settings] | None, index: int) -> Filters | None:
        for entry in () if settings_of is None else settings_of(index):
            if entry[0] == "warnings":
                return numbered_filters(entry[1])
        return self._at_start

    def forget(self, run: int) -> None:
        """A run has ended."""
        self._seen.pop(run, None)

    def issue(self) -> None:
        """Issue what has arrived.

        Raises:
            A warning that a filter makes an error of.
        """
        while self._arrived and not self._deferred:
            record, warned, filters = self._arrived.popleft()
            warning = unpack_warning(warned)
            add_note(warning, f"raygrad: issued by node {warned.index} of run {record.run} on {record.worker}")
            module = sys.modules.get(warned.module)
            registry = (
                self._registries.setdefault(warned.filename, {})
                if module is None
                else vars(module).setdefault("__warningregistry__", {})
            )
            with nullcontext() if filters is None else filtered_by(filters):
                warnings.warn_explicit(
                    warning, type(warning), warned.filename, warned.line, warned.module or None, registry
                )

    @contextmanager
    def deferred(self) -> Generator[None, None, None]:
        """Issue nothing in a block."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def close(self) -> None:
        """Issue what is left on the way out, where nothing may be raised."""
        while self._arrived:
            with contextlib.suppress(Warning):
                self.issue()
