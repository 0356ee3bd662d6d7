"""Standby session: the session of a program that may open none itself.

It is ambient from the start, and opens its executor when something is first recorded. It ends before the program opens
a session of its own (from a library, say), so that the two neither mix nor compete for workers: its values are fetched
then, its graphs end there, and what the program does outside of its own sessions runs eagerly from there on.
"""

from __future__ import annotations

from typing import Any, cast

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Recorder

from . import session_defaults
from .session import Session


class StandbySession:
    """A session that opens on first use, in the thread that entered it."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._recorder = cast("Recorder", _OpeningRecorder(self))
        self._entered = self._ended = False

    def enter(self) -> None:
        """Make it ambient in this thread."""
        self._entered = True
        state.recorder = self._recorder
        session_defaults.before_open.append(self._step_aside)

    def finish(self, *, discard: bool) -> None:
        """End it: wait for its work and fetch its values, or drop them.

        Raises:
            An error of its work that was not raised before.
        """
        if self._ended or not self._entered:
            return
        self._ended = True
        session_defaults.before_open.remove(self._step_aside)
        if state.recorder is self._recorder:
            state.recorder = None
        if self._session is not None:
            self._session.close(discard=discard)

    def opened(self) -> Recorder:
        """Return the recorder of the session, which is opened now if it was not."""
        if self._session is None and not self._ended:
            state.recorder = None
            session_defaults.before_open.remove(self._step_aside)  # this one is no session of the program's
            try:
                self._session = Session().start()
            finally:
                session_defaults.before_open.append(self._step_aside)
        recorder = state.recorder
        assert recorder is not None
        return recorder

    def _step_aside(self) -> None:
        self.finish(discard=False)


class _OpeningRecorder:
    """The ambient recorder until something is recorded: whatever autograd asks of it opens the session."""

    def __init__(self, standby: StandbySession) -> None:
        vars(self)["_standby"] = standby

    def __getattr__(self, name: str) -> Any:
        standby: StandbySession = vars(self)["_standby"]
        return getattr(standby.opened(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        standby: StandbySession = vars(self)["_standby"]
        setattr(standby.opened(), name, value)
