"""Pictures node by node: nothing overlaps, time runs to the right, forward is above backward."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from hypothesis import given, settings, strategies as st

from raygrad.report.layout import by_node, node_title
from raygrad.report.picture import Box, DrawnSegment, Picture
from raygrad.report.shown import BACKWARD, FORWARD, LabelledGraph


def graph(kinds: list[str], edges: list[tuple[int, int]]) -> LabelledGraph:
    count = len(kinds)
    names = tuple(f"op{index}" for index in range(count))
    return LabelledGraph(names=names, kinds=tuple(kinds), places=("",) * count, edges=tuple(sorted(edges)))


def piece(index: int, worker: int, nodes: list[int]) -> DrawnSegment:
    return DrawnSegment(index, worker, tuple(nodes), len(nodes), 0, 0, "", "1 ms", "", -1, False)


def picture(shown: LabelledGraph, pieces: list[DrawnSegment], critical: tuple[int, ...] = ()) -> Picture:
    return by_node(pieces, shown, ["w0", "w1", "w2"], critical, list(shown.names), "title")


def overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


@st.composite
def cut_graphs(draw: Any) -> tuple[LabelledGraph, list[DrawnSegment]]:
    """Any graph of up to 24 nodes, cut into blocks of its order on up to three workers."""
    count = draw(st.integers(1, 24))
    kinds = [draw(st.sampled_from([FORWARD, BACKWARD])) for _ in range(count)]
    edges = {(draw(st.integers(0, target - 1)), target) for target in range(1, count) if draw(st.booleans())}
    pieces: list[DrawnSegment] = []
    at = 0
    while at < count:
        size = draw(st.integers(1, 6))
        pieces.append(piece(len(pieces), draw(st.integers(0, 2)), list(range(at, min(count, at + size)))))
        at += size
    return graph(kinds, list(edges)), pieces


@settings(max_examples=60, deadline=None)
@given(cut_graphs())
def test_nodes_and_frames_of_any_cut_lie_apart_and_on_the_sheet(cut: tuple[LabelledGraph, list[DrawnSegment]]):
    shown, pieces = cut
    made = picture(shown, pieces)
    assert not any(overlap(one, other) for one, other in combinations(made.boxes, 2))
    assert not any(overlap(one, other) for one, other in combinations(made.frames, 2))
    for given_piece, frame in zip(pieces, made.frames, strict=True):
        for node in given_piece.nodes:
            box = made.boxes[node]
            assert frame.x < box.x
            assert box.x + box.width < frame.x + frame.width
            assert frame.y < box.y
            assert box.y + box.height < frame.y + frame.height
    for box in (*made.boxes, *made.frames):
        assert 0 <= box.x
        assert box.x + box.width <= made.width
        assert box.y + box.height <= made.height
    for source, target in shown.edges:
        assert made.boxes[source].x + made.boxes[source].width < made.boxes[target].x


def test_forward_is_above_backward_and_a_chain_is_straight():
    shown = graph([FORWARD, FORWARD, BACKWARD, BACKWARD], [(0, 1), (1, 2), (2, 3), (0, 3)])
    boxes = picture(shown, [piece(0, 0, [0, 1, 2, 3])]).boxes
    assert boxes[0].y == boxes[1].y < boxes[2].y == boxes[3].y
    assert [box.style for box in boxes] == [FORWARD, FORWARD, BACKWARD, BACKWARD]


def test_lines_say_what_they_are():
    shown = graph([FORWARD, FORWARD, BACKWARD, FORWARD], [(0, 1), (0, 2), (1, 2), (2, 3)])
    made = picture(shown, [piece(0, 0, [0, 1, 2]), piece(1, 1, [3])], critical=(0, 1, 2))
    styles = {line.title: (line.style, line.bold) for line in made.lines}
    assert styles == {
        "op0 → op1": ("edge", True),
        "op0 → ∂op2: saved for backward": ("saved", False),
        "op1 → ∂op2: saved for backward": ("saved", True),
        "∂op2 → op3: from w0 to w1": ("crossing", False),
    }
    assert [box.bold for box in made.boxes] == [True, True, True, False]


def test_a_nodes_title_has_all_that_is_known_of_it():
    shown = graph([FORWARD], [])
    assert node_title(shown, 0, 3, "w1", ["pinned"], 0.001) == "node 0: op0\nsegment 3 on w1\npinned\ntakes 1.00 ms"
