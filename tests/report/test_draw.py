"""Which picture is drawn, and what it says of each segment."""

from __future__ import annotations

from typing import Any

from raygrad.report.draw import MAX_DRAWN_NODES


def test_few_nodes_are_drawn_one_by_one(told: Any):
    made = told.explanation.picture()
    assert made.by_node
    assert len(made.boxes) == told.run.nodes <= MAX_DRAWN_NODES
    assert len(made.frames) == len(told.run.plan.segments)
    assert {box.style for box in made.boxes} == {"forward", "backward", "hook"}
    assert sum(box.bold for box in made.boxes) == len(told.explanation.plan.critical)
    assert "pinned by the user" in made.boxes[0].title
    assert any(line.style == "crossing" for line in made.lines)


def test_many_nodes_are_drawn_by_segment(told_long: Any):
    made = told_long.explanation.picture()
    assert not made.by_node
    assert told_long.run.nodes > MAX_DRAWN_NODES
    assert len(made.boxes) == len(told_long.run.plan.segments)
    crossing = {line.title for line in made.lines if line.style == "crossing"}
    assert len(crossing) == len(told_long.explanation.plan.moved)


def test_a_run_is_drawn_as_its_plan_with_its_own_times(told: Any, told_long: Any):
    for one in (told, told_long):
        plan, run = one.explanation.picture(), one.run.report().picture()
        assert (plan.by_node, len(plan.boxes)) == (run.by_node, len(run.boxes))
        assert "predicted" in (run.frames or run.boxes)[0].title
