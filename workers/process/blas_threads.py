"""The limit on BLAS threads of this process while a run is in flight (H12).

Executors set and release it. The state is process-wide and counted, so that two sessions do not undo each other's
limit."""

from __future__ import annotations

import sys
import threading

from threadpoolctl import LibController, ThreadpoolController

_lock = threading.Lock()
_libraries: list[LibController] = []
_modules_seen = 0
"""Number of loaded modules at the last search for `_libraries`: a search takes a millisecond, so it follows imports."""
_before: list[tuple[LibController, int]] = []
_holders: list[int] = []
"""The limits in force; the smallest counts."""


def limit_blas(threads: int) -> None:
    """Let BLAS use at most so many threads in this process, until `release_blas(threads)`. Costs some microseconds."""
    global _libraries, _modules_seen
    with _lock:
        if not _holders:
            if len(sys.modules) != _modules_seen:
                _libraries = [one for one in ThreadpoolController().lib_controllers if one.user_api == "blas"]
                _modules_seen = len(sys.modules)
            _before[:] = [(library, library.get_num_threads() or 1) for library in _libraries]
            for library, before in _before:
                if before != threads:
                    library.set_num_threads(threads)
            _holders.append(threads)
            return
        _holders.append(threads)
        _apply()


def release_blas(threads: int) -> None:
    """Undo one `limit_blas(threads)`; after the last, BLAS has as many threads as before the first.

    Raises:
        ValueError: it is not in force.
    """
    with _lock:
        _holders.remove(threads)
        _apply()


def limit_in_force() -> int | None:
    """Return the limit on threads of numerical libraries in this process; None if there is none.

    For libraries with threads of their own that no controller here knows (torch).
    """
    with _lock:
        return min(_holders, default=None)


def _apply() -> None:
    for library, before in _before:
        wanted = min(_holders) if _holders else before
        if library.get_num_threads() != wanted:
            library.set_num_threads(wanted)
