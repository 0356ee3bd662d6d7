"""Ensembles through a server, beside a session on the same Ray: what it costs that the client is elsewhere.

Programs and rounds are those of `ensemble.py`. The server is a driver of its own, with two workers for its session; the
session beside it has two, too. Both give the bits of the program by hand, which is checked at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from ensemble import Expected, Side, cases, local_ray, timed
from ensemble_programs import Outcome, Program
from ensemble_verdicts import Case
from measure import Grid, Result, Subject, compare, elsewhere
from service import server

import raygrad as rg

DIRECT: Final = "session on Ray"


class SessionThread:
    """A session with a thread of its own, since a session is ambient in the threads that entered it."""

    def __init__(self, address: str, **options: Any) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._session = self._thread.submit(lambda: rg.Session(address, workers=2, **options).start()).result()

    def steps_of(self, program: Program, *, compiled: bool) -> Callable[[], Outcome]:
        """Return what takes a step of a program in the session."""
        step = self._thread.submit(partial(program.recorded, self._session, compiled=compiled)).result()
        return lambda: self._thread.submit(step).result()

    def close(self) -> None:
        """End the session."""
        self._thread.submit(self._session.close).result()
        self._thread.shutdown()


def measured(case: Case, sessions: dict[str, SessionThread]) -> list[Result]:
    """Measure the steps of a program in all sessions."""
    program = case.program
    program.prepare()
    expected = Expected(program)
    found: list[Result] = []
    for compiled in (False, True):
        subjects: list[Subject] = []
        for name, session in sessions.items():
            side = Side(name, timed(session.steps_of(program, compiled=compiled)), expected)
            anchor, aim = ("", "") if name == DIRECT else (DIRECT, "<= 1.1")
            subjects.append(Subject(name, side.once, anchor, aim))
        how = ", session.compile" if compiled else ""
        found += compare(f"{program.name}{how} | step", subjects, case.rounds)
    return found


def results(quick: bool) -> list[Result | Grid]:
    """Measure everything of this file."""
    found: list[Result | Grid] = []
    with elsewhere(), local_ray(cpus=4) as address:
        options = {"address": address, "workers": 2, "allow_pickle": True}
        with server(**options) as (url, _):
            sessions = {DIRECT: SessionThread(address), "through a server": SessionThread(url, allow_pickle=True)}
            for case in cases(quick=quick):
                found += measured(case, sessions)
            for session in sessions.values():
                session.close()
    return found
