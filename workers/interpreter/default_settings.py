"""Default settings of a worker's thread while it runs a segment (DR-10).

The host enters them around all steps of a call; `user_steps` sets those of user code.
"""

from __future__ import annotations

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.session_threads import SEGMENTS
from raygrad.autograd.dispatch.settings import (
    DEFAULT_DTYPE,
    IGNORING,
    OPTIONS,
    reset_errors,
    reset_options,
    set_errors,
    set_options,
)


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
