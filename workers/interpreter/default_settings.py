"""Default settings of a worker's thread: of a segment, and of user code that was recorded under no others (DR-10).

The host enters `WorkerSettings` around all steps of a call, and the compiler wraps steps of user code. Settings of
other moments are restored by `raygrad.autograd.dispatch.settings`, whose variables both set.
"""

from __future__ import annotations

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.session_threads import SEGMENTS
from raygrad.autograd.dispatch.settings import (
    DEFAULT_DTYPE,
    ERRORS,
    IGNORING,
    OPTIONS,
    options_now,
    reset_errors,
    reset_options,
    set_errors,
    set_options,
)

from ..values.slots import Execute, Slots


class WorkerSettings:
    """The settings of a thread while it runs a segment: those that a program finds at its start, but that NumPy's
    errors are ignored, as built-in ops have it. Around user code are those of its recording."""

    __slots__ = ("_errors", "_options")

    def __enter__(self) -> None:
        SEGMENTS.append(None)
        state.here.default_dtype = DEFAULT_DTYPE
        self._errors, self._options = set_errors(IGNORING), set_options(OPTIONS)

    def __exit__(self, *_: object) -> None:
        reset_options(self._options)
        reset_errors(self._errors)
        SEGMENTS.pop()


def with_default_settings(run: Execute) -> Execute:
    """Return code of a segment that runs under the default settings, as most user code does."""

    def by_default(slots: Slots) -> None:
        token = set_errors(ERRORS)
        try:
            run(slots)
        finally:
            reset_errors(token)
            state.here.default_dtype = DEFAULT_DTYPE  # what it has set ends with it
            if options_now() is not OPTIONS:
                set_options(OPTIONS)

    return by_default
