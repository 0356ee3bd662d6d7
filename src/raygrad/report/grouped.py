"""The layout of a picture by segment, for large graphs: a lane per worker, a box per segment, time to the right.

`draw` calls it. A segment stands to the right of the previous one on its worker and of all that it reads. The more
segments there are, the less is written on a box; the rest is in its tooltip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from .figures import number
from .picture import (
    HEAD,
    LANE_HEAD,
    MARGIN,
    Box,
    DrawnSegment,
    Lane,
    Line,
    Picture,
    SegmentEdge,
    along,
    arched,
    colour,
    cropped,
    sideways,
)

MAX_LARGE_BOXES: Final = 40
"""Segments up to this number have their counts, times and functions written on them at length."""
MAX_SMALL_BOXES: Final = 240
"""Up to this number they have them in short, more have their number."""
MAX_LABELS: Final = 32
"""Lines between workers up to this number have their bytes written on them."""
LETTERS: Final = 25
"""Of one line of a large box."""
LABEL_LETTER: Final = 6.4
LABEL_HEIGHT: Final = 15.0
"""Of bytes written on a line, with their halo."""
SHARES: Final = tuple(0.5 + side * step / 40 for step in range(18) for side in (1, -1))
"""Of a line's way, where its label may stand: the middle first."""
INK: Final = 12.0
"""Of lines to far away, in all: the more there are, the fainter is each."""


class _BoxSizes(NamedTuple):
    """Sizes of boxes, and the room between them."""

    style: str
    width: float
    height: float
    gap: float
    hop: float
    """To a box on another worker that reads this one."""
    pad: float
    between: float


_LARGE: Final = _BoxSizes("segment", 178.0, 84.0, 24.0, 54.0, 14.0, 14.0)
_SMALL: Final = _BoxSizes("small", 96.0, 50.0, 14.0, 26.0, 9.0, 16.0)
_CHIP: Final = _BoxSizes("chip", 40.0, 22.0, 8.0, 16.0, 5.0, 6.0)


def by_segment(
    pieces: Sequence[DrawnSegment], links: Sequence[SegmentEdge], workers: Sequence[str], title: str
) -> Picture:
    """Return the picture."""
    measures = _LARGE if len(pieces) <= MAX_LARGE_BOXES else _SMALL if len(pieces) <= MAX_SMALL_BOXES else _CHIP
    lanes: list[Lane] = []
    top: dict[int, float] = {}
    y = HEAD + MARGIN
    for worker in sorted({piece.worker for piece in pieces}):
        height = measures.height + 2 * measures.pad
        lanes.append(Lane(y, height, workers[worker], colour(worker)))
        top[worker] = y + measures.pad
        y += height + measures.between
    reads: dict[int, list[SegmentEdge]] = {}
    for link in links:
        reads.setdefault(link.target, []).append(link)
    right: dict[int, float] = {}  # per worker
    boxes: dict[int, Box] = {}
    for piece in pieces:
        x = right.get(piece.worker, MARGIN + LANE_HEAD)
        for link in reads.get(piece.index, ()):
            if link.source in boxes:
                source = boxes[link.source]
                x = max(x, source.x + source.width + (measures.hop if link.crosses else measures.gap))
        boxes[piece.index] = _box(piece, x, top[piece.worker], measures)
        right[piece.worker] = x + measures.width + measures.gap
    crossing = sum(link.crosses for link in links)
    by_index = {piece.index: piece for piece in pieces}
    drawn = [link for link in links if link.source in boxes]
    lines = [_line(boxes[link.source], boxes[link.target], link, by_index[link.target], crossing) for link in drawn]
    if crossing <= MAX_LABELS:
        lines = _labelled(lines, tuple(boxes.values()), [(boxes[a.source], boxes[a.target], a.label) for a in drawn])
    lines.sort(key=lambda line: (line.style == "crossing", line.bold))
    width = max([900.0, *[one + MARGIN for one in right.values()]])
    return Picture(title, False, width, y + 8, tuple(lanes), (), tuple(lines), tuple(boxes.values()))


def _box(piece: DrawnSegment, x: float, y: float, measures: _BoxSizes) -> Box:
    total = max(1, piece.forward + piece.backward + piece.hooks)
    parts = [(piece.forward, "forward"), (piece.backward, "backward"), (piece.hooks, "hooks")]
    match measures.style:
        case "segment":
            nodes = " · ".join(f"{count:,} {what}" for count, what in parts if count)
            lines = (f"segment {piece.index}", cropped(nodes or number(0, "node"), 30), *_wrapped(piece.mainly))
        case "small":
            short = {"forward": "fwd", "backward": "bwd", "hooks": "hooks"}
            nodes = " · ".join(f"{count:,} {short[what]}" for count, what in parts if count)
            lines = (f"{piece.index}", cropped(nodes, 16), _fitted(piece.mainly, 15))
        case _:
            lines = (f"{piece.index}",)
    return Box(
        x,
        y,
        measures.width,
        measures.height,
        colour(piece.worker),
        measures.style,
        lines,
        piece.details,
        bold=piece.chained,
        share=piece.backward / total,
        corner="" if measures.style == "chip" else piece.took,
    )


def _fitted(names: str, letters: int) -> str:
    """Return as many of the main functions as fit: a number that is cut off would say something else."""
    given = names.split(", ")
    for count in range(len(given), 0, -1):
        said = ", ".join(given[:count] if count == len(given) else [*given[:count], "…"])
        if len(said) <= letters:
            return said
    return cropped(given[0], letters)


def _wrapped(names: str) -> tuple[str, ...]:
    """Return the main functions in up to two lines."""
    lines: list[str] = []
    for name in names.split(", "):
        if lines and len(lines[-1]) + len(name) + 2 <= LETTERS:
            lines[-1] += f", {name}"
        else:
            lines.append(name)
    return tuple(cropped(line, LETTERS) for line in lines[:2])


def _line(one: Box, other: Box, link: SegmentEdge, target: DrawnSegment, crossing: int) -> Line:
    level = one.y == other.y
    if level and other.x - one.x > one.width * 1.6:
        path = arched(one.x + one.width / 2, other.x + other.width / 2, one.y, min(12.0, one.height / 4))
    else:
        path = sideways(one.x + one.width, one.y + one.height / 2, other.x, other.y + other.height / 2)
    far = max(0.01, min(0.16, INK / max(1, crossing)))
    return Line(
        path,
        "crossing" if link.crosses else "edge",
        f"segment {link.source} → segment {link.target}: {link.label}",
        bold=target.chained and target.held_by == link.source,
        strength=1.0 if crossing <= MAX_LABELS else max(far, min(0.9, 1.6 * one.width / max(1.0, other.x - one.x))),
    )


def _labelled(lines: Sequence[Line], boxes: Sequence[Box], ends: Sequence[tuple[Box, Box, str]]) -> list[Line]:
    """Return the lines, those between workers with their bytes where these cover neither a box nor each other. Where
    there is no such place, only who points at the line reads them."""
    taken = [(box.x, box.y, box.x + box.width, box.y + box.height) for box in boxes]
    made = list(lines)
    for at in sorted(
        (at for at, line in enumerate(lines) if line.style == "crossing"), key=lambda at: not lines[at].bold
    ):
        one, other, label = ends[at]
        half, up = len(label) * LABEL_LETTER / 2, LABEL_HEIGHT / 2
        for share in SHARES:
            x, y = along(one.x + one.width, one.y + one.height / 2, other.x, other.y + other.height / 2, share)
            left, top, right, bottom = x - half, y - up, x + half, y + up
            if all(right <= a or c <= left or bottom <= b or d <= top for a, b, c, d in taken):
                taken.append((left, top, right, bottom))
                made[at] = lines[at]._replace(label=label, x=x, y=y)
                break
    return made
