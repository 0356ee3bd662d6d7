"""Reports of runs: predicted and actual, as data, text and HTML."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import raygrad as rg

from .conftest import New


def test_the_summary_says_what_was_predicted_and_what_was(told: Any):
    report = told.run.report()
    text = report.summary()[0]
    assert text.startswith(f"Run {told.run.number}, finished: {told.run.nodes} nodes in {len(told.run.plan.segments)} ")
    assert "(predicted " in text


def test_every_segment_has_a_row_with_both_figures(told: Any):
    report = told.run.report()
    segments, workers, *_ = report.tables()
    assert len(segments.rows) == len(told.run.plan.segments)
    assert [row[0] for row in workers.rows] == ["worker 0", "worker 1"]
    assert {"predicted>", "took>", "ratio>", "waited for data>", "call>"} <= set(segments.columns)
    assert all(one.seconds > 0 for one in report.run.segments)


def test_data_is_json(told: Any):
    data = told.run.report().as_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["run"]["segments"][0]["status"] == "done"
    assert sum(len(one["members"]) for one in data["run"]["segments"]) == told.run.nodes
    assert "plan" not in data


@pytest.mark.parametrize("ending", ["html", "svg", "json"])
def test_each_ending_has_its_form(told: Any, tmp_path: Path, ending: str):
    path = told.run.report().save(tmp_path / f"run.{ending}")
    begins = {"html": "<!doctype html>", "svg": "<svg ", "json": "{"}
    assert path.read_text(encoding="utf-8").startswith(begins[ending])


def test_a_notebook_gets_drawing_and_tables(told_long: Any):
    report = told_long.run.report()
    html = report._repr_html_()
    assert "<svg" in html
    assert html.count("<table>") == len(report.tables())


def test_long_nodes_are_listed_with_the_line_that_made_them(told_long: Any):
    report = told_long.run.report()
    timed = [node for one in report.run.segments for node in one.nodes]
    tables = {table.title: table for table in report.tables()}
    assert ("The longest nodes" in tables) == bool(timed)
    for row in tables["The longest nodes"].rows if timed else ():
        assert row[1] == report.graph.label(int(row[0]))


def test_a_run_that_is_not_over_leaves_room_for_names_of_workers():
    """What has become of a segment stands where its time would, or rich would cut the names of workers off."""
    with rg.Session(workers=2) as session:
        run = session.run(rg.tensor([1.0]) * 2).wait()
        done = run.report()
    began = done.run.segments[0]
    busy = replace(began, data_wait=0.0464, held_by=14, latency=0.0637, bytes_out=623_000, start=0.106)
    missing = replace(busy, index=1, status="missing", seconds=0.0)
    segment = done.plan.segments[0]
    facts = replace(done.run, segments=(busy, missing))
    plan = replace(done.plan, segments=(segment, segment))
    report = replace(done, run=facts, plan=plan)
    lines = str(report).splitlines()
    assert any(" worker 0 " in line and " 46.4 ms (14) " in line for line in lines)
    assert any(" worker 0 " in line and " missing " in line for line in lines)


class Fails(rg.autograd.Function):
    @staticmethod
    def infer(x: Any) -> Any:
        return x.shape, x.dtype

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        raise LookupError("no such shot")


def test_segments_that_never_began_in_a_failed_run_have_no_times():
    with rg.Session(workers=2) as session:
        with rg.place(worker=0):
            first = Fails.apply(rg.tensor([1.0, 2.0]))
        with rg.place(worker=1):
            last = first * 2.0
        with pytest.raises(LookupError, match="no such shot"):
            last.numpy()
        assert session.last_run is not None
        report = session.last_run.report()
    tables = {table.title: table for table in report.tables()}
    assert "The longest nodes" not in tables
    segments = tables["Segments, predicted and actual"]
    took, started = segments.columns.index("took>"), segments.columns.index("started>")
    assert [row[took] for row in segments.rows] == ["failed", "not run"]
    assert segments.rows[1][started:] == ("-",) * len(segments.columns[started:])


def test_a_prediction_that_went_by_unknown_functions_is_called_a_guess():
    said: list[str] = []
    with rg.Session(workers=2) as session:
        for _ in range(3):
            run = session.run(New.apply(rg.tensor([1.0, 2.0]))).wait()
            said.append(run.report().summary()[0])
    assert [", a guess: 1 node of Functions that had never run, New)" in one for one in said] == [True, False, False]
