"""Remote warnings: warnings that user code issued on workers, issued again at the client.

The run listener takes them from records, and sync points issue them under the client's filters, with the file and line
of their origin, once per run. If a filter turns one into an error, `issue` raises it; the run does not fail, and the
other warnings are issued by the next call.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from raygrad.proto.ir.program import CapturedWarning, Record
from raygrad.workers.code.warning_capture import unpack_warning


class RemoteWarnings:
    """The warnings of one session that have arrived and were not issued yet."""

    def __init__(self) -> None:
        self._arrived: deque[tuple[Record, CapturedWarning]] = deque()
        self._seen: dict[int, set[tuple[str, str, str, int]]] = {}
        """Of each run under way: category, text, file and line of its warnings."""
        self._registries: dict[str, dict[Any, Any]] = {}
        """By file, where modules that are not loaded here would note which warnings were shown."""
        self._deferred = False

    def take(self, record: Record) -> None:
        """A segment's record has arrived."""
        for warned in record.warned:
            seen = self._seen.setdefault(record.run, set())
            key = (warned.category, warned.message, warned.filename, warned.line)
            if key not in seen:
                seen.add(key)
                self._arrived.append((record, warned))

    def forget(self, run: int) -> None:
        """A run has ended."""
        self._seen.pop(run, None)

    def issue(self) -> None:
        """Issue what has arrived.

        Raises:
            A warning that a filter makes an error of.
        """
        while self._arrived and not self._deferred:
            record, warned = self._arrived.popleft()
            warning = unpack_warning(warned)
            warning.add_note(f"raygrad: issued by node {warned.index} of run {record.run} on {record.worker}")
            module = sys.modules.get(warned.module)
            registry = (
                self._registries.setdefault(warned.filename, {})
                if module is None
                else vars(module).setdefault("__warningregistry__", {})
            )
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
