"""Figures of `ensemble.py` held against what the project aims at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ensemble_programs import Program
from ensemble_sleeping import Slept
from measure import Grid, Result, readable

FIRST: Final = "raygrad, first step"
SECOND: Final = "raygrad, second step"
AFRESH: Final = "raygrad"
COMPILED: Final = "raygrad, session.compile"
RIVALS: Final = ("Dask futures", "torch rpc")


@dataclass(frozen=True, slots=True)
class Case:
    """A program, and what is aimed at: ratios to the fastest way of bare actors, unless said otherwise."""

    program: Program
    rounds: int
    afresh: float = 1.10
    compiled: float = 1.05
    second: float = 1.15
    runs: int = 1
    """How many runs of one Function the first step may take beside 1.15 times the median."""
    starts: int = 1
    """In how many fresh sessions the first two steps are measured."""
    against: str = ""
    """The one way that counts, where what takes long is not known before it does; "" for the fastest."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A figure held against its aim."""

    program: str
    claim: str
    figure: str
    aim: str
    holds: bool | None
    """None where nothing was measured."""

    def row(self) -> tuple[str, ...]:
        """Return it as a line of a table."""
        word = "not measured" if self.holds is None else "holds" if self.holds else "falls short"
        return self.program, self.claim, self.figure, self.aim, word


def not_measured(name: str, why: str) -> Verdict:
    """Return the line on a rival that is not there."""
    return Verdict("all programs", f"{AFRESH} / {name}", why, "< 1", None)


def table_of(found: Sequence[Verdict]) -> Grid:
    """Return the lines as a table."""
    columns = ("program", "claim", "measured", "aim", "")
    rows = tuple(verdict.row() for verdict in found)
    return Grid("ensembles: what is aimed at", columns, rows, words=len(columns), records=tuple[Any, ...](found))


def held_against(case: Case, ways: Sequence[str], results: list[Result]) -> list[Result]:
    """Return the results with the fastest of the bare actors' ways as anchor, and the ratios that are aimed at."""
    fastest = min((result for result in results if result.subject in ways), key=lambda result: result.median)
    anchor = case.against or fastest.subject
    aims = {subject: f"<= {most}" for subject, most in ratios_of(case).items()}
    if not case.against:
        aims[FIRST] = f"<= {runs_of(case)} + 1.15 x the median"
    return [
        result if result.subject == anchor else replace(result, anchor=anchor, aim=aims.get(result.subject, ""))
        for result in results
    ]


def runs_of(case: Case) -> str:
    """Return what the first step may take beside other steps, in words."""
    return "a run" if case.runs == 1 else f"{case.runs} runs"


def ratios_of(case: Case) -> dict[str, float]:
    """Return the ratios to bare actors that are aimed at, by subject."""
    if case.against:
        return {AFRESH: case.afresh}
    return {AFRESH: case.afresh, COMPILED: case.compiled, SECOND: case.second}


def verdicts(case: Case, results: list[Result], one_run: float) -> list[Verdict]:
    """Hold the figures of one program against what is aimed at."""
    name = case.program.name
    by_subject = {result.subject: result for result in results}
    found: list[Verdict] = []
    for subject, most in ratios_of(case).items():
        result = by_subject[subject]
        ratio = result.median / by_subject[result.anchor].median
        against = case.against or "bare actors"
        found.append(Verdict(name, f"{subject} / {against}", f"{ratio:.2f}", f"<= {most}", ratio <= most))
    if not case.against:
        first, most = by_subject[FIRST].median, case.runs * one_run + 1.15 * by_subject[AFRESH].median
        aim = f"<= {runs_of(case)} + 1.15 x the median = {readable(most)}"
        found.append(Verdict(name, FIRST, readable(first), aim, first <= most))
    for rival in RIVALS:
        if rival in by_subject:
            ratio = by_subject[AFRESH].median / by_subject[rival].median
            found.append(Verdict(name, f"{AFRESH} / {rival}", f"{ratio:.2f}", "< 1", ratio < 1))
    return found


def verdicts_of_sleep(slept: list[Slept]) -> list[Verdict]:
    """Hold what sleeping ensembles took against what is aimed at."""
    found: list[Verdict] = []
    for one in slept:
        case, (first, *others) = one.case, one.seconds
        if case.first is not None:
            aim = f"<= {case.first} s"
            found.append(Verdict(case.name, "first step", f"{first:.2f} s", aim, first <= case.first))
        claim = "second step" if len(others) == 1 else f"slowest of steps 2 to {len(one.seconds)}"
        slowest = max(others)
        found.append(Verdict(case.name, claim, f"{slowest:.2f} s", f"<= {case.most} s", slowest <= case.most))
    return found
