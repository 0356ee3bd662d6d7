"""The layout of a picture by node, for small graphs: a lane per worker, time to the right, forward above backward.

`draw` calls it. The nodes of a segment stand in one frame; the frames of a worker follow each other. A node stands to
the right of all that it reads, in the row of the first of its inputs if that is free there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from .figures import seconds
from .picture import (
    HEAD,
    LANE_HEAD,
    MARGIN,
    Box,
    DrawnSegment,
    Lane,
    Line,
    Picture,
    arched,
    colour,
    cropped,
    sideways,
    upright,
)
from .shown import BACKWARD, LabelledGraph

NODE_HEIGHT: Final = 30.0
ROW: Final = 50.0
BETWEEN: Final = 34.0
"""Between the rows of forward and those of backward, beside a row's own gap: lines of what is saved run there."""
GAP: Final = 36.0
"""Between columns."""
PAD: Final = 12.0
"""Between a frame and its nodes."""
LABEL: Final = 18.0
"""Height of a frame's label."""
LETTER: Final = 7.4
"""Width of a letter."""
MOST_LETTERS: Final = 22


def by_node(
    pieces: Sequence[DrawnSegment],
    graph: LabelledGraph,
    workers: Sequence[str],
    critical: Sequence[int],
    titles: Sequence[str],
    title: str,
) -> Picture:
    """Return the picture. `titles` are what is shown to who points at a node."""
    count = len(graph.names)
    before: list[list[int]] = [[] for _ in range(count)]
    for source, target in graph.edges:
        before[target].append(source)
    worker_of = [0] * count
    column = [0] * count
    base: dict[int, int] = {}
    for piece in pieces:
        low = base.get(piece.worker, 0)
        for node in piece.nodes:
            worker_of[node] = piece.worker
            column[node] = max([low, *[column[one] + 1 for one in before[node]]])
        base[piece.worker] = max([low, *[column[node] + 1 for node in piece.nodes]])
    row, rows = _rows(pieces, graph, before, worker_of, column)
    labels = [cropped(graph.label(node), MOST_LETTERS) for node in range(count)]
    widths = [max(44.0, len(label) * LETTER + 20) for label in labels]
    widest: dict[int, float] = {}
    for node in range(count):
        widest[column[node]] = max(widest.get(column[node], 0.0), widths[node])
    left: dict[int, float] = {}
    x = MARGIN + LANE_HEAD + PAD
    for at in range(max(widest, default=-1) + 1):
        left[at] = x
        x += widest.get(at, 0.0) + GAP
    lanes: list[Lane] = []
    top: dict[int, float] = {}
    y = HEAD + MARGIN
    for worker in sorted({piece.worker for piece in pieces}):
        forward, backward = rows[worker]
        height = (forward + backward) * ROW + (BETWEEN if forward and backward else 0.0) + LABEL + PAD
        lanes.append(Lane(y, height + 14, workers[worker], colour(worker)))
        top[worker] = y + 7 + LABEL + PAD
        y += height + 14 + 16
    boxes: list[Box] = []
    marked = set(critical)
    for node in range(count):
        worker = worker_of[node]
        lower = graph.kinds[node] == BACKWARD
        forward = rows[worker][0]
        down = row[node] * ROW + ((forward * ROW + (BETWEEN if forward else 0.0)) if lower else 0.0)
        boxes.append(
            Box(
                left[column[node]] + (widest[column[node]] - widths[node]) / 2,
                top[worker] + down,
                widths[node],
                NODE_HEIGHT,
                colour(worker),
                graph.kinds[node],
                (labels[node],),
                titles[node],
                node in marked,
            )
        )
    lines = _lines(graph, boxes, worker_of, column, row, critical, workers)
    frames = [_frame(piece, [boxes[node] for node in piece.nodes]) for piece in pieces if piece.nodes]
    width = max(x + MARGIN, 900.0)
    return Picture(title, True, width, y + 8, tuple(lanes), tuple(frames), tuple(lines), tuple(boxes))


def _rows(
    pieces: Sequence[DrawnSegment],
    graph: LabelledGraph,
    before: Sequence[Sequence[int]],
    worker_of: Sequence[int],
    column: Sequence[int],
) -> tuple[list[int], dict[int, tuple[int, int]]]:
    """Return each node's row among those of its worker and direction, and how many rows each worker needs of each."""
    row = [0] * len(column)
    taken: set[tuple[int, bool, int, int]] = set()
    rows = {piece.worker: (0, 0) for piece in pieces}
    for piece in pieces:
        for node in piece.nodes:
            lower = graph.kinds[node] == BACKWARD
            mates = [
                row[one]
                for one in before[node]
                if worker_of[one] == piece.worker and (graph.kinds[one] == BACKWARD) == lower
            ]
            wish = mates[0] if mates else 0
            free = sorted(range(len(column)), key=lambda one: (abs(one - wish), one))
            row[node] = next(one for one in free if (piece.worker, lower, column[node], one) not in taken)
            taken.add((piece.worker, lower, column[node], row[node]))
            forward, backward = rows[piece.worker]
            rows[piece.worker] = (
                (forward, max(backward, row[node] + 1)) if lower else (max(forward, row[node] + 1), backward)
            )
    return row, rows


def _frame(piece: DrawnSegment, boxes: Sequence[Box]) -> Box:
    x, y = min(box.x for box in boxes) - PAD, min(box.y for box in boxes) - PAD - LABEL + 4
    right, bottom = max(box.x + box.width for box in boxes) + PAD, max(box.y + box.height for box in boxes) + PAD
    label = f"segment {piece.index}"
    room = int((right - x - 16) / 6.2)
    for more in (f"segment {piece.index} · {piece.took}", label, f"{piece.index}"):
        label = more
        if len(more) <= room:
            break
    return Box(
        x, y, right - x, bottom - y, colour(piece.worker), "frame", (label,), piece.details, bold=piece.chained
    )  # fmt: skip


def _lines(
    graph: LabelledGraph,
    boxes: Sequence[Box],
    worker_of: Sequence[int],
    column: Sequence[int],
    row: Sequence[int],
    critical: Sequence[int],
    workers: Sequence[str],
) -> list[Line]:
    marked = set(pairwise(critical))
    lines: list[Line] = []
    for source, target in graph.edges:
        one, other = boxes[source], boxes[target]
        crosses = worker_of[source] != worker_of[target]
        saved = graph.kinds[source] != BACKWARD and graph.kinds[target] == BACKWARD
        near = column[target] - column[source] == 1
        middle, end = one.x + one.width / 2, other.x + other.width / 2
        if near or (not crosses and not saved and row[source] != row[target]):
            path = sideways(one.x + one.width, one.y + NODE_HEIGHT / 2, other.x, other.y + NODE_HEIGHT / 2)
        elif one.y < other.y:
            path = upright(middle, one.y + NODE_HEIGHT, end, other.y)
        elif one.y > other.y:
            path = upright(middle, one.y, end, other.y + NODE_HEIGHT)
        else:
            path = arched(middle, end, one.y, min(30.0, 12.0 + 2.0 * (column[target] - column[source])))
        style = "crossing" if crosses else "saved" if saved else "edge"
        said = f"{graph.label(source)} → {graph.label(target)}"
        if crosses:
            said += f": from {workers[worker_of[source]]} to {workers[worker_of[target]]}"
        elif saved:
            said += ": saved for backward"
        lines.append(Line(path, style, said, (source, target) in marked))
    return sorted(lines, key=lambda line: ("saved", "edge", "crossing").index(line.style) + 3 * line.bold)


def node_title(graph: LabelledGraph, node: int, segment: int, worker: str, facts: Sequence[str], took: float) -> str:
    """Return what is shown to who points at a node."""
    parts = [f"node {node}: {graph.label(node)}", f"segment {segment} on {worker}", *facts]
    if took:
        parts.append(f"takes {seconds(took)}")
    if graph.places[node]:
        parts.append(graph.places[node])
    return "\n".join(parts)
