"""How everything here is measured, and how it is shown.

Subjects that are compared run in turn, round by round, so that a busy machine slows them alike; the
median over the rounds counts; nothing is asserted.
"""

from __future__ import annotations

import gc
import importlib.metadata
import itertools
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

UNITS = ((1e-6, "ns", 1e9), (1e-3, "µs", 1e6), (1.0, "ms", 1e3), (float("inf"), "s", 1.0))
PACKAGES = ("raygrad", "numpy", "torch", "autograd", "ray", "distributed", "scikit-learn", "websockets")


@dataclass(frozen=True, slots=True)
class Result:
    """One subject of one comparison: seconds per unit of work, over the rounds."""

    work: str
    """What is compared, and per what: "custom Function, 4 elements, forward + backward | node"."""
    subject: str
    median: float
    fastest: float
    slowest: float
    rounds: int
    anchor: str = ""
    """The subject of the same work that this one is held against; "" for anchors themselves."""
    aim: str = ""
    """What the project aims at, in words."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Figures that are no times of one unit of work: a line per case, a column per figure."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    """How many columns, from the first, are words and set to the left."""
    records: tuple[Any, ...] = ()
    """What stands behind the rows, as data classes."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to measure: `once` does the work and returns seconds per unit, or runs and leaves the clock to us."""

    name: str
    once: Callable[[], float]
    anchor: str = ""
    aim: str = ""


def per_unit(work: Callable[[], Any], units: int) -> Callable[[], float]:
    """Return `once` of a subject whose `work` does that many units."""

    def once() -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) / units

    return once


def compare(work: str, subjects: Iterable[Subject], rounds: int, warmup: int = 2) -> list[Result]:
    """Measure the subjects in turn. Garbage is collected between the measurements, not within them by surprise."""
    subjects = list(subjects)
    seconds: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for number in range(warmup + rounds):
        for subject in subjects:
            gc.collect()
            taken = subject.once()
            if number >= warmup:
                seconds[subject.name].append(taken)
    return [
        Result(
            work=work,
            subject=subject.name,
            median=statistics.median(seconds[subject.name]),
            fastest=min(seconds[subject.name]),
            slowest=max(seconds[subject.name]),
            rounds=rounds,
            anchor=subject.anchor,
            aim=subject.aim,
        )
        for subject in subjects
    ]


@contextmanager
def elsewhere() -> Generator[None]:
    """Work in an empty folder: rooms of this repository bear the import names of other projects, and Ray puts the
    working folder on its workers' path."""
    import tempfile

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


# ---- what is shown -------------------------------------------------------------------------------------------------


def readable(seconds: float) -> str:
    """Return a time in the unit that fits it."""
    for limit, unit, factor in UNITS:
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"
    raise AssertionError("every time fits some unit")


def machine() -> dict[str, str]:
    """Return what the figures depend on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = models[0] if models else model
    versions: dict[str, str] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return {
        "processor": f"{model}, {cores} cores",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "BLAS threads": os.environ.get("OPENBLAS_NUM_THREADS", "not set"),
    }


def grid(one: Grid) -> str:
    """Return a grid as text."""
    lines = [one.columns, *one.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(one.columns))]
    ways = [str.ljust] * one.words + [str.rjust] * (len(widths) - one.words)
    shown = ["  ".join(way(cell, width) for way, cell, width in zip(ways, line, widths, strict=True)) for line in lines]
    return "\n".join(["", one.title, *(f"  {line}".rstrip() for line in shown)])


def table(measured: Iterable[Result | Grid]) -> str:
    """Return what was measured as text: one block per comparison or grid."""
    blocks: list[str] = []
    for kind, group in itertools.groupby(measured, key=type):
        several = list(group)
        if kind is Grid:
            blocks += [grid(one) for one in several if isinstance(one, Grid)]
        else:
            blocks.append(comparisons([one for one in several if isinstance(one, Result)]))
    return "\n".join(blocks)


def comparisons(results: list[Result]) -> str:
    """Return the results as text: one block per comparison."""
    lines: list[str] = []
    by_name = {(result.work, result.subject): result for result in results}
    width = max([len(result.subject) for result in results], default=0)
    work = ""
    for result in results:
        if result.work != work:
            work = result.work
            what, _, unit = work.partition("|")
            lines += ["", f"{what.strip()} (per {unit.strip()})"]
        anchor = by_name.get((work, result.anchor))
        ratio = f"{result.median / anchor.median:8.3g} x {anchor.subject}" if anchor else ""
        aim = f"   aim: {result.aim}" if result.aim else ""
        spread = f"{readable(result.fastest)} .. {readable(result.slowest)}"
        lines.append(
            f"  {result.subject:{width}}  {readable(result.median):>9}   [{spread:^20}]  {ratio}{aim}".rstrip()
        )
    return "\n".join(lines)


def as_data(measured: Iterable[Result | Grid], about: Mapping[str, str]) -> dict[str, Any]:
    """Return everything as plain data, for a JSON file."""
    measured = list(measured)
    return {
        "machine": dict(about),
        "results": [asdict(one) for one in measured if isinstance(one, Result)],
        "grids": [asdict(one) for one in measured if isinstance(one, Grid)],
    }
