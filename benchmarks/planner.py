"""How good placements are, and what finding them costs: raygrad's planner beside HEFT, CPOP and PEFT.

One configuration of each algorithm for every graph; every schedule is checked; a makespan counts as
a multiple of the lower bound max(critical path, work / workers). Often no schedule reaches that: "least" is what
`bounds` leaves on equal workers. Each graph is placed on equal workers, and on as many of which some are faster.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import recorded_programs
from baselines import cpop, heft, peft
from bounds import communicating_bound
from families import CHAINS, FAMILIES, RATIOS, make
from measure import Grid
from schedule_checks import check_schedule

from raygrad.scheduler.model.critical_path import critical_path, lower_bound
from raygrad.scheduler.model.dag import Dag, Platform, Schedule
from raygrad.scheduler.placing.scheduling import schedule

OURS = "raygrad"
ALGORITHMS: dict[str, Callable[[Dag, Platform], Schedule]] = {"HEFT": heft, "CPOP": cpop, "PEFT": peft, OURS: schedule}
OTHERS = tuple(name for name in ALGORITHMS if name != OURS)

EQUAL, MIXED = "equal", "mixed"
FASTER = 8.0
"""How many times as fast as the others a fourth of mixed workers are: those that have a GPU."""

QUICK = ((100, 4, 1), (1_000, 16, 1))
FULL = ((100, 4, 5), (1_000, 16, 3), (10_000, 64, 1))
"""Nodes, workers and how many graphs of each family and ratio."""


@dataclass(frozen=True, slots=True)
class Case:
    """One graph on so many workers, and what each algorithm made of it."""

    family: str
    ccr: float
    nodes: int
    workers: int
    width: float
    """Work over critical path: how many workers could be busy at best."""
    least: float
    """A bound that counts communication, over the lower bound: no ratio is below it."""
    ratios: dict[str, float]
    """Makespan over the lower bound, by algorithm."""
    seconds: dict[str, float]
    """Time of the processor taken to plan, per node: one thread computes, and others may want the processor too."""
    kind: str = EQUAL
    """Whether the workers are equally fast."""

    @property
    def to_best(self) -> float:
        """Our makespan over the best of the others'."""
        return self.ratios[OURS] / min(self.ratios[other] for other in OTHERS)

    @property
    def gain(self) -> float:
        """How much shorter our makespan is than HEFT's: 0.1 for a tenth."""
        return 1 - self.ratios[OURS] / self.ratios["HEFT"]

    @property
    def named(self) -> str:
        """The case in words."""
        return f"{self.family} at {self.ccr:g}, {self.nodes:,} nodes on {self.workers} {self.kind} workers"


def mixed(workers: int) -> Platform:
    """Return workers of which a fourth are faster; edges take that much less that the ratio of communication to
    computation stays what it says, where computation is the mean time of a node over the workers."""
    speed = np.where(np.arange(workers) % 4 == 0, FASTER, 1.0)
    return Platform(speed, slowness=float((1 / speed).mean()))


PLATFORMS: dict[str, Callable[[int], Platform]] = {EQUAL: Platform.of, MIXED: mixed}


def measured(family: str, size: int, workers: int, ccr: float, seed: int, kind: str = EQUAL) -> Case:
    """Return what each algorithm makes of one graph."""
    dag, platform = make(FAMILIES[family], size, ccr, seed), PLATFORMS[kind](workers)
    bound = lower_bound(dag, platform)
    ratios: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for name, algorithm in ALGORITHMS.items():
        start = time.process_time()
        made = algorithm(dag, platform)
        seconds[name] = (time.process_time() - start) / len(dag)
        check_schedule(made, dag, platform)
        ratios[name] = made.makespan / bound
    width = float(dag.seconds.sum()) / critical_path(dag)
    least = communicating_bound(dag, platform) / bound if kind == EQUAL else 1.0
    return Case(family, ccr, len(dag), workers, width, least, ratios, seconds, kind)


def results(quick: bool) -> list[Grid]:
    """Measure everything of this file."""
    found: list[Grid] = []
    cases: list[Case] = []
    for (size, workers, graphs), kind in itertools.product(QUICK if quick else FULL, PLATFORMS):
        rows: list[list[Case]] = []
        for family in FAMILIES:
            for ccr in RATIOS:
                progress(f"placement of {family} at {ccr:g}, {size:,} nodes on {workers} {kind} workers")
                rows.append([measured(family, size, workers, ccr, seed, kind) for seed in range(graphs)])
        progress("")
        found.append(by_family(rows))
        cases += [case for row in rows for case in row]
    return [*found, summary(cases), *recorded_programs.results(quick)]


def progress(what: str) -> None:
    """Show what is being measured, where someone looks on."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{what}")
        sys.stderr.flush()


# ---- what is shown -------------------------------------------------------------------------------------------------


def by_family(rows: Sequence[Sequence[Case]]) -> Grid:
    """Return the table of one size: geometric means over the graphs of a family and ratio, and the worst of them held
    against the best of the others."""
    first = rows[0][0]
    several = f", {len(rows[0])} graphs each" if len(rows[0]) > 1 else ""
    return Grid(
        title=f"placement on {first.workers} {first.kind} workers{several}: makespan over "
        "max(critical path, work / workers), and µs of planning per node",
        columns=(
            "family",
            "comm/comp",
            "nodes",
            "work/path",
            "least",
            *ALGORITHMS,
            "to best of 3",
            *(f"{name} µs" for name in ALGORITHMS),
        ),
        rows=tuple(
            (
                row[0].family,
                f"{row[0].ccr:g}",
                f"{row[0].nodes:,}",
                f"{statistics.mean(case.width for case in row):.1f}",
                f"{geometric(case.least for case in row):.3f}",
                *(f"{geometric(case.ratios[name] for case in row):.3f}" for name in ALGORITHMS),
                f"{max(case.to_best for case in row):.3f}",
                *(f"{1e6 * statistics.mean(case.seconds[name] for case in row):.0f}" for name in ALGORITHMS),
            )
            for row in rows
        ),
        records=tuple(case for row in rows for case in row),
    )


def summary(cases: Sequence[Case]) -> Grid:
    """Return what the project aims at: for each number and kind of workers, and for each kind."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        for name in (f"{case.workers} {case.kind}", f"all {case.kind}"):
            groups.setdefault(name, []).append(case)
    names = sorted(groups, key=lambda name: name.startswith("all"))  # a stable sort: the sums come last
    rows = [(name, *line) for name in names for line in aims(groups[name])]
    return Grid(
        title="placement, in short", columns=("cases", "figure", OURS, *OTHERS, "aim"), rows=tuple(rows), words=2
    )


def aims(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """Return lines of figure, ours, the others' and the aim."""
    lines: list[tuple[str, ...]] = []
    names = (OURS, *OTHERS)
    wide = [case for case in cases if case.ccr == 0.1 and case.width >= 2 * case.workers]
    if wide:
        means = (f"{geometric(case.ratios[name] for case in wide):.3f}" for name in names)
        lines.append((f"x bound at 0.1, work/path >= 2 x workers ({len(wide)})", *means, "<= 1.10"))
    worst = max(cases, key=lambda case: case.to_best)
    lines.append((f"worst x best of the three: {worst.named}", f"{worst.to_best:.3f}", "", "", "", "<= 1.01"))
    for ccr, aim in ((1.0, ">= 5 %"), (5.0, ">= 10 %")):
        some = [case for case in cases if case.ccr == ccr and case.family not in CHAINS]
        if some:
            means = (
                f"{100 * statistics.mean(1 - case.ratios[name] / case.ratios['HEFT'] for case in some):.1f} %"
                for name in names
            )
            lines.append((f"mean gain over HEFT at {ccr:g}, not chains ({len(some)})", *means, aim))
        if some and all(case.kind == EQUAL for case in some):
            most = 100 * statistics.mean(1 - case.least / case.ratios["HEFT"] for case in some)
            lines.append((f"... and no schedule gains more at {ccr:g} than", f"{most:.1f} %", "", "", "", ""))
    times = (f"{1e6 * statistics.median(case.seconds[name] for case in cases):.0f} µs" for name in names)
    lines.append(("planning per node, median", *times, ""))
    times = (f"{1e6 * max(case.seconds[name] for case in cases):.0f} µs" for name in names)
    lines.append(("planning per node, worst", *times, ""))
    return lines


def geometric(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.mean(math.log(value) for value in values))
