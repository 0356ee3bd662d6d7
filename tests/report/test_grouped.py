"""Pictures by segment: at any number of segments nothing overlaps, and what is written fits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from raygrad.report.grouped import MAX_LABELS, MAX_LARGE_BOXES, MAX_SMALL_BOXES, by_segment
from raygrad.report.picture import DrawnSegment, SegmentEdge

WORKERS = ["w0", "w1", "w2"]


def pieces(count: int) -> list[DrawnSegment]:
    return [
        DrawnSegment(
            i, i % 3, (i,), 1200, 400, 0, "mul 800, tanh 400, Solve, …", "1.25 ms", f"details {i}", i - 1, i < 2
        )
        for i in range(count)
    ]


def chain(count: int) -> list[SegmentEdge]:
    return [SegmentEdge(i - 1, i, True, "1.00 kB") for i in range(1, count)] + [
        SegmentEdge(0, count - 1, False, "1 edge")
    ]


@pytest.mark.parametrize(
    ("count", "style"), [(5, "segment"), (MAX_LARGE_BOXES + 1, "small"), (MAX_SMALL_BOXES + 1, "chip"), (2000, "chip")]
)
def test_boxes_of_a_worker_follow_each_other(count: int, style: str):
    made = by_segment(pieces(count), chain(count), WORKERS, "title")
    assert len(made.boxes) == count
    assert {box.style for box in made.boxes} == {style}
    for worker in range(3):
        mine = made.boxes[worker::3]
        for one, other in pairwise(mine):
            assert one.y == other.y
            assert one.x + one.width < other.x
    for one, other in pairwise(made.boxes):
        assert one.x + one.width < other.x  # each reads the one before
    assert max(box.x + box.width for box in made.boxes) < made.width
    assert max(box.y + box.height for box in made.boxes) < made.height


def test_a_box_has_its_counts_functions_and_share():
    box = by_segment(pieces(3), [], WORKERS, "title").boxes[0]
    assert box.lines[:2] == ("segment 0", "1,200 forward · 400 backward")
    assert box.lines[2:] == ("mul 800, tanh 400, Solve", "…")
    assert (box.corner, box.share, box.title) == ("1.25 ms", 0.25, "details 0")


def test_a_small_box_cuts_no_number_off():
    one = DrawnSegment(0, 0, (0,), 1, 0, 0, "mul 800, tanh 400, Solve, …", "1 ms", "", -1, False)
    long = one._replace(index=1, mainly="convolution_with_padding 12")
    many = [one, long, *pieces(MAX_LARGE_BOXES + 1)[2:]]
    first, second, *_ = by_segment(many, [], WORKERS, "title").boxes
    assert first.lines == ("0", "1 fwd", "mul 800, …")
    assert second.lines[2] == "convolution_wi…"


def test_what_crosses_is_labelled_where_lines_are_few():
    few = by_segment(pieces(4), chain(4), WORKERS, "title")
    many = by_segment(pieces(MAX_LABELS + 9), chain(MAX_LABELS + 9), WORKERS, "title")
    assert [line.label for line in few.lines if line.style == "crossing"] == ["1.00 kB"] * 3
    assert {line.label for line in many.lines} == {""}


def test_what_holds_up_the_whole_is_bold():
    made = by_segment(pieces(4), chain(4), WORKERS, "title")
    assert [box.bold for box in made.boxes] == [True, True, False, False]
    assert [line.title for line in made.lines if line.bold] == ["segment 0 → segment 1: 1.00 kB"]


@settings(max_examples=60)
@given(st.integers(2, MAX_LARGE_BOXES), st.integers(0, 2**32 - 1))
def test_bytes_on_lines_cover_neither_boxes_nor_each_other(count: int, seed: int):
    random = np.random.default_rng(seed)
    some = [one._replace(worker=int(random.integers(3))) for one in pieces(count)]
    pairs = sorted({(int(random.integers(at)), at) for at in range(1, count) for _ in range(2)})
    crossing = [pair for pair in pairs if some[pair[0]].worker != some[pair[1]].worker][:MAX_LABELS]
    sizes = ["8 B", "41.0 kB", "1.21 GB"]
    made = by_segment(some, [SegmentEdge(a, b, True, sizes[b % 3]) for a, b in crossing], WORKERS, "title")
    labels = [line for line in made.lines if line.label]
    covered = [
        (line.x - 3 * len(line.label), line.y - 6, line.x + 3 * len(line.label), line.y + 6) for line in labels
    ] + [(box.x, box.y, box.x + box.width, box.y + box.height) for box in made.boxes]
    for at, (left, top, right, bottom) in enumerate(covered[: len(labels)]):
        for a, b, c, d in covered[at + 1 :]:
            assert right <= a or c <= left or bottom <= b or d <= top
    assert bool(labels) == bool(crossing)


def test_the_more_lines_go_far_the_fainter_is_each():
    few, many = (
        by_segment(pieces(count), [SegmentEdge(0, i, True, "8 B") for i in range(1, count)], WORKERS, "title")
        for count in (MAX_LABELS + 9, 1000)
    )
    faintest = [min(line.strength for line in made.lines) for made in (few, many)]
    assert faintest[1] < faintest[0] / 4
    assert faintest[1] > 0
