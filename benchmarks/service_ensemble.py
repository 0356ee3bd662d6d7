"""Ensembles through a server, beside a session on the same Ray: what it costs that the client is elsewhere.

The programs are those of `ensemble.py`. The server is a driver of its own, with two workers for its session; the
session beside it has two, too. Both give the bits of the program by hand, which is checked at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from ensemble import MEGABYTE, Expected, Side, local_ray, timed
from ensemble_programs import Ensemble, Outcome, Pipeline, Program, calibrated
from measure import Grid, Result, Subject, compare, elsewhere
from service import server

import raygrad as rg

DIRECT: Final = "session on Ray"


def programs(*, quick: bool) -> list[tuple[Program, int]]:
    """Return the programs, and rounds of each."""
    middle = calibrated((0.017, 0.017), 8 * MEGABYTE, MEGABYTE // 8)
    short = calibrated((0.001, 0.001), 100_000, 1_250)
    stage = calibrated((0.010, 0.010), 2 * MEGABYTE, MEGABYTE // 32)
    rounds = 3 if quick else 9
    return [
        (Ensemble("16 branches, 17 + 17 ms, 8 MB kept, 1 MB out", 16, middle, MEGABYTE // 8), rounds),
        (Ensemble("64 branches, 1 + 1 ms, 100 KB kept, 10 KB out", 64, short, 1_250), rounds),
        (Pipeline("pipeline, 4 stages x 8 microbatches, 10 + 10 ms", 8, 4, stage, MEGABYTE // 32), rounds),
    ]


class Client:
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


def measured(program: Program, rounds: int, clients: dict[str, Client]) -> list[Result]:
    """Measure the steps of a program in all sessions."""
    program.prepare()
    expected = Expected(program)
    found: list[Result] = []
    for compiled in (False, True):
        subjects: list[Subject] = []
        for name, client in clients.items():
            side = Side(name, timed(client.steps_of(program, compiled=compiled)), expected)
            anchor, aim = ("", "") if name == DIRECT else (DIRECT, "<= 1.1")
            subjects.append(Subject(name, side.once, anchor, aim))
        how = ", session.compile" if compiled else ""
        found += compare(f"{program.name}{how} | step", subjects, rounds)
    return found


def results(quick: bool) -> list[Result | Grid]:
    """Measure everything of this file."""
    found: list[Result | Grid] = []
    with elsewhere(), local_ray(cpus=4) as address:
        options = {"address": address, "workers": 2, "allow_pickle": True}
        with server(**options) as (url, _):
            clients = {DIRECT: Client(address), "through a server": Client(url, allow_pickle=True)}
            for program, rounds in programs(quick=quick):
                found += measured(program, rounds, clients)
            for client in clients.values():
                client.close()
    return found
