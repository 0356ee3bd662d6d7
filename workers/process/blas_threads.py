"""The limit on BLAS threads of this process while a run is in flight (H12).

Executors set and release it, from whichever thread. The state is process-wide and counted, so that two sessions do not
undo each other's limit."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

from threadpoolctl import LibController, ThreadpoolController


class _Library(NamedTuple):
    """A loaded BLAS: the functions that read and set its number of threads."""

    get: Callable[[], int | None]
    set: Callable[[int], object]
    per_thread: bool
    """`set` counts for the calling thread only (OpenMP)."""


_lock = threading.Lock()
_libraries: list[_Library] = []
_modules_seen = 0
"""Number of loaded modules at the last search for `_libraries`: a search takes a millisecond, so it follows imports."""
_before: list[tuple[_Library, int]] = []
_holders: list[int] = []
"""The limits in force; the smallest counts."""


def limit_blas(threads: int) -> None:
    """Let BLAS use at most so many threads in this process, until `release_blas(threads)`. Costs some microseconds."""
    with _lock:
        if not _holders:
            if len(sys.modules) != _modules_seen:
                _find_libraries()
            _before[:] = [(library, library.get() or 1) for library in _libraries]
            for library, before in _before:
                if before != threads:
                    library.set(threads)
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


def limit_own_thread(threads: int) -> None:
    """Let BLAS use at most so many threads for calls of the current thread, for good. For a thread that runs segments
    only, beside the one that holds the limit: some libraries (OpenMP) keep a number per thread."""
    with _lock:
        if len(sys.modules) != _modules_seen:
            _find_libraries()
        for library in _libraries:
            if library.per_thread:
                library.set(threads)


def _apply() -> None:
    for library, before in _before:
        wanted = min(_holders) if _holders else before
        if library.get() != wanted:
            library.set(wanted)


def _find_libraries() -> None:
    global _libraries, _modules_seen
    _libraries = [_functions_of(one) for one in ThreadpoolController().lib_controllers if one.user_api == "blas"]
    _modules_seen = len(sys.modules)


def _functions_of(found: LibController) -> _Library:
    """Return the functions of a library. OpenBLAS's own are called directly: threadpoolctl ignores calls from all
    threads but the first that set a limit, and the thread that ends the last call of a run is any."""
    library: Any = found
    per_thread = getattr(library, "threading_layer", "") == "openmp"
    if library.internal_api == "openblas" and not per_thread:
        for prefix, suffix in product(("", "scipy_"), ("", "64_", "_64")):
            get = getattr(library.dynlib, f"{prefix}openblas_get_num_threads{suffix}", None)
            change = getattr(library.dynlib, f"{prefix}openblas_set_num_threads{suffix}", None)
            if get is not None and change is not None:
                return _Library(get, change, False)
    return _Library(library.get_num_threads, library.set_num_threads, per_thread)
