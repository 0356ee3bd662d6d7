"""Silence on standard output for one thread: what user code prints when it runs again only to be differentiated.

`contextlib.redirect_stdout` would silence the whole process and, on several threads, may leave it so: in a session of
one process workers run at the same time.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from typing import Any

_lock = threading.Lock()
_silent: Counter[int] = Counter()
"""Per thread, how often it is silenced."""


class _StdoutOfOthers:
    """Stands for `sys.stdout`: discards what silenced threads write, and is the real one for all others."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() in _silent else self.real.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class silent_stdout:
    """A context manager in which this thread prints nothing."""

    def __enter__(self) -> None:
        with _lock:
            if type(sys.stdout) is not _StdoutOfOthers:
                sys.stdout = _StdoutOfOthers(sys.stdout)
            _silent[threading.get_ident()] += 1

    def __exit__(self, *_: object) -> None:
        with _lock:
            thread = threading.get_ident()
            _silent[thread] -= 1
            if not _silent[thread]:
                del _silent[thread]
            stands: Any = sys.stdout
            if not _silent and type(stands) is _StdoutOfOthers:  # else somebody has put another in its place
                sys.stdout = stands.real
