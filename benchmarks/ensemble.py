"""Ensembles and pipelines on two Ray workers, beside bare Ray actors, Dask futures and torch rpc in the same run.

K expensive branches of one model and one loss are what most programs are. Each program runs in one process by hand; by
bare actors in three ways, of which the fastest is the anchor; by Dask and torch, where they are installed; and with
raygrad: its first and second step in a fresh session, and then round by round, recorded afresh and compiled. All give
the same bits, which is checked at every step; of the rivals only the values are, which they add in orders of their own.

The last table holds the figures against what the project aims at.
"""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import ensemble_bare_actors
import ensemble_by_hand
import ensemble_programs
import ensemble_seismic
import numpy as np
import ray
import ray.cloudpickle
from ensemble_bare_actors import QUEUE, BareActors
from ensemble_by_hand import in_one_process, stepping
from ensemble_programs import Ensemble, Outcome, Pipeline, Program, calibrated
from ensemble_rivals import Rival, rivals
from ensemble_seismic import Seismic
from ensemble_sleeping import cases as sleeping, slept
from ensemble_verdicts import (
    AFRESH,
    COMPILED,
    FIRST,
    SECOND,
    Case,
    Verdict,
    held_against,
    not_measured,
    table_of,
    verdicts,
    verdicts_of_sleep,
)
from measure import Grid, Result, Subject, compare, elsewhere

import raygrad as rg

STORE: Final = 512 * 2**20
"""Bytes of Ray's store: what 16 branches keep and give, several times."""
MEGABYTE: Final = 2**20

BY_HAND: Final = "by hand, one process"

# ---- measuring one program -----------------------------------------------------------------------------------------


class Expected:
    """What the steps of a program give by hand in one process, each computed once unless it is measured."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._step = stepping(program, in_one_process(program))
        self._found: list[Outcome] = []

    def once(self) -> float:
        """Take the next step by hand; return its seconds."""
        start = time.perf_counter()
        outcome = self._step()
        seconds = time.perf_counter() - start
        self._found.append(outcome)
        return seconds

    def check(self, name: str, number: int, got: Outcome, *, exact: bool) -> None:
        """Raise RuntimeError if a step gave something else: other bits, or if not `exact` other values."""
        first = self.program.same_as(number)
        while len(self._found) <= first:
            self.once()
        wanted = self._found[first]
        pairs = list(zip(wanted.grads, got.grads, strict=True))
        if exact:
            same = wanted.loss == got.loss and all(one.tobytes() == other.tobytes() for one, other in pairs)
        else:
            same = math.isclose(wanted.loss, got.loss, rel_tol=1e-9) and all(
                np.allclose(one, other, rtol=1e-9) for one, other in pairs
            )
        if not same:
            raise RuntimeError(f"{self.program.name}: step {number} of '{name}' gives other values than by hand")


class Side:
    """One way of running a program, which takes step after step: `take` gives the seconds and what came out."""

    def __init__(
        self, name: str, take: Callable[[], tuple[float, Outcome]], expected: Expected, *, exact: bool = True
    ) -> None:
        self.name, self._take, self._expected, self._exact = name, take, expected, exact
        self._number = 0

    def once(self) -> float:
        """Take the next step and check what it gives; return its seconds."""
        seconds, outcome = self._take()
        self._expected.check(self.name, self._number, outcome, exact=self._exact)
        self._number += 1
        return seconds


def timed(step: Callable[[], Outcome]) -> Callable[[], tuple[float, Outcome]]:
    """Return what takes a step and gives its seconds, too."""

    def take() -> tuple[float, Outcome]:
        start = time.perf_counter()
        outcome = step()
        return time.perf_counter() - start, outcome

    return take


def measured(case: Case, bare: BareActors, started: list[Rival]) -> list[Result]:
    """Run a program in all ways; the ratios are to the fastest way of bare actors."""
    program = case.program
    program.prepare()
    expected = Expected(program)
    work = f"{program.name} | step"
    ways = bare.begin(program)
    for rival in started:
        rival.begin(program)
    firsts: list[float] = []
    seconds: list[float] = []

    def fresh(session: rg.Session) -> Side:
        afresh = Side(AFRESH, timed(program.recorded(session, compiled=False)), expected)
        firsts.append(afresh.once())
        seconds.append(afresh.once())
        return afresh

    for _ in range(case.starts - 1):
        with rg.Session("ray", workers=2) as session:
            fresh(session)
    with rg.Session("ray", workers=2) as session:
        sides = [
            *(Side(name, timed(stepping(program, way)), expected) for name, way in ways.items()),
            *(Side(rival.name, rival.step, expected, exact=False) for rival in started),
            fresh(session),
            Side(COMPILED, timed(program.recorded(session, compiled=True)), expected),
        ]
        subjects = [Subject(BY_HAND, expected.once), *(Subject(side.name, side.once) for side in sides)]
        found = compare(work, subjects, case.rounds, warmup=1)
    first, second = (
        Result(work, name, statistics.median(taken), min(taken), max(taken), case.starts)
        for name, taken in ((FIRST, firsts), (SECOND, seconds))
    )
    at = next(number for number, result in enumerate(found) if result.subject == AFRESH)
    return held_against(case, list(ways), [*found[:at], first, second, *found[at:]])


# ---- the part ------------------------------------------------------------------------------------------------------


def cases(*, quick: bool) -> list[Case]:
    """Return the programs, with work calibrated for this machine."""
    few, some, many, starts = (2, 2, 2, 1) if quick else (3, 3, 7, 2)
    half, each, steps = (2, 80, 150) if quick else (1, 160, 550)
    wide, narrow = MEGABYTE // 8, MEGABYTE // 32
    middle = calibrated((0.017, 0.017), 8 * MEGABYTE, wide)
    long = calibrated((each / 1000, each / 1000), 8 * MEGABYTE, wide)
    short = calibrated((0.001, 0.001), 100_000, 1_250)
    stage = calibrated((0.010, 0.010), 2 * MEGABYTE, narrow)
    sixteen, eight = 16 // half, 8 // half
    lognormal = np.random.default_rng(3).lognormal(-0.3, 0.8, sixteen)
    durations = tuple((lognormal / lognormal.mean()).tolist())
    branches, sizes = f"{sixteen} branches", "8 MB kept, 1 MB out"
    thirty = f"{branches}, 17 + 17 ms, {sizes}"
    return [
        Case(Ensemble(thirty, sixteen, middle, wide), many, starts=starts),
        Case(Ensemble(f"{thirty}, an int each", sixteen, middle, wide, numbered=True), some, runs=2),
        Case(Ensemble(f"{eight} branches, {each} + {each} ms, {sizes}", eight, long, wide), few),
        Case(
            Ensemble("64 branches, 1 + 1 ms, 100 KB kept, 10 KB out", 64, short, 1_250),
            many,
            afresh=1.3,
            compiled=1.3,
            second=1.3,
            starts=starts,
        ),
        Case(
            Ensemble(f"{branches}, uneven (lognormal, 34 ms in the mean)", sixteen, middle, wide, True, durations),
            some,
            runs=2,
        ),
        Case(
            Ensemble(f"{branches}, one 5 x slower than predicted", sixteen, middle, wide, slow=5.0),
            some,
            afresh=1.15,
            against=QUEUE,
        ),
        Case(Pipeline(f"pipeline, 4 stages x {eight} microbatches, 10 + 10 ms", eight, 4, stage, narrow), some),
        Case(Seismic(f"examples/seismic, an iteration of {eight} shots of {steps} steps", eight, steps), few),
    ]


@contextmanager
def local_ray(cpus: int = 2) -> Generator[str]:
    """Start a Ray for all that is measured here; give its address, and end it."""
    ray.init(
        address="local",
        num_cpus=cpus,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
        object_store_memory=STORE,
    )
    modules = [ensemble_programs, ensemble_by_hand, ensemble_bare_actors, ensemble_seismic]
    for module in modules:  # workers cannot import these files
        ray.cloudpickle.register_pickle_by_value(module)
    try:
        yield f"ray:{ray.get_runtime_context().gcs_address}"
    finally:
        for module in modules:
            ray.cloudpickle.unregister_pickle_by_value(module)
        ray.shutdown()


def results(quick: bool) -> list[Result | Grid]:
    """Measure everything of this file."""
    found: list[Result | Grid] = []
    judged: list[Verdict] = []
    with elsewhere(), local_ray() as address:
        with rivals() as (started, missing):
            bare = BareActors()
            for case in cases(quick=quick):
                some = measured(case, bare, started)
                found += some
                judged += verdicts(case, some, case.program.one_run())
            bare.close()
        judged += [not_measured(name, why) for name, why in missing]
        judged += verdicts_of_sleep(slept(sleeping(address, quick=quick)))
    return [*found, table_of(judged)]
