"""A picture as data: boxes, lines and texts with coordinates; and the segments and edges from which it is made.

`layout` and `grouped` compute the coordinates, `drawing` writes the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

COLOURS: Final = (
    "#2563eb", "#059669", "#7c3aed", "#0891b2", "#db2777", "#65a30d", "#4f46e5", "#b45309", "#0d9488", "#9333ea",
)  # fmt: skip
"""Of workers, in turn. Orange is that of what crosses, and of nothing else."""

MARGIN: Final = 20.0
HEAD: Final = 88.0
"""Height of title and legend."""
LANE_HEAD: Final = 104.0
"""Width of the column of workers' names."""


class DrawnSegment(NamedTuple):
    """A segment with its texts, from which both kinds of picture are made."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    worker: int
    nodes: tuple[int, ...]
    forward: int
    backward: int
    hooks: int
    mainly: str
    took: str
    details: str
    """The text of its tooltip."""
    held_by: int
    """The segment that holds it up, or -1."""
    chained: bool
    """It is one of those that the time of the whole is made of."""


class SegmentEdge(NamedTuple):
    """The values that one segment reads from another."""

    source: int
    target: int
    crosses: bool
    label: str


class Box(NamedTuple):
    """A node, or a segment."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    style: str
    """One of "forward", "backward", "hook", "frame", "segment", "small" (where there are many) and "chip" (where there
    are very many)."""
    lines: tuple[str, ...]
    title: str
    """Shown to who points at it."""
    bold: bool = False
    """On the critical path."""
    share: float = 0.0
    """Of a segment, the share of its nodes that belong to backward."""
    corner: str = ""
    """Small text in the upper right corner of a segment."""


class Line(NamedTuple):
    """From one box to another."""

    path: str
    """What SVG draws."""
    style: str
    """One of "edge", "saved" and "crossing"."""
    title: str
    bold: bool = False
    label: str = ""
    x: float = 0.0
    y: float = 0.0
    """The middle of the label."""
    strength: float = 1.0
    """From 0 to 1: lines to far away are faint where there are many."""


class Lane(NamedTuple):
    """The part of the sheet that is one worker's."""

    y: float
    height: float
    name: str
    colour: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A sheet with everything in its place."""

    title: str
    by_node: bool
    """It shows nodes; else segments."""
    width: float
    height: float
    lanes: tuple[Lane, ...]
    frames: tuple[Box, ...]
    lines: tuple[Line, ...]
    boxes: tuple[Box, ...]


def colour(worker: int) -> str:
    """Return a worker's colour."""
    return COLOURS[worker % len(COLOURS)]


def cropped(text: str, most: int) -> str:
    """Return a text with at most so many letters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def sideways(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a curve from the right side of one box to the left side of another."""
    bend = max(14.0, (x2 - x1) * 0.5)
    return f"M{x1:.1f},{y1:.1f} C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"


def along(x1: float, y1: float, x2: float, y2: float, share: float) -> tuple[float, float]:
    """Return the point of a sideways curve after a share of its way, from 0 to 1."""
    bend = max(14.0, (x2 - x1) * 0.5)
    one, two, three, four = (1 - share) ** 3, 3 * share * (1 - share) ** 2, 3 * share**2 * (1 - share), share**3
    return one * x1 + two * (x1 + bend) + three * (x2 - bend) + four * x2, (one + two) * y1 + (three + four) * y2


def upright(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a curve from the lower side of one box to the upper side of another, or the other way round."""
    bend = (y2 - y1) * 0.55
    return f"M{x1:.1f},{y1:.1f} C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} {x2:.1f},{y2:.1f}"


def arched(x1: float, x2: float, y: float, rise: float) -> str:
    """Return a curve over what stands between two boxes of one row, from upper side to upper side."""
    return f"M{x1:.1f},{y:.1f} C{x1:.1f},{y - rise:.1f} {x2:.1f},{y - rise:.1f} {x2:.1f},{y:.1f}"
