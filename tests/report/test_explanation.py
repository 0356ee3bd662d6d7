"""Explanations: what they say, as data, text and HTML."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import raygrad as rg
from raygrad.report.explanation import PATH_NODES, SignatureWait

from .conftest import New


def test_the_summary_has_the_plans_figures(told: Any):
    first, second, *_ = told.explanation.summary()
    plan = told.explanation.plan
    assert first.startswith(f"{len(told.explanation.graph.names)} nodes in {len(plan.segments)} segments on 2 of 2")
    assert f"critical path of {len(plan.critical)} nodes" in second


def test_the_text_names_segments_workers_reasons_and_functions(told: Any):
    text = " ".join(str(told.explanation).split())
    for said in ("worker 0", "worker 1", "pinned by", "Twice", "∂Twice", "Critical path", "What crosses"):
        assert said in text


def test_functions_whose_first_runs_were_waited_for_are_named(told: Any):
    (waited,) = told.explanation.infer
    assert (waited.name, waited.waits) == ("Twice", 1)
    assert waited.seconds > 0
    assert "gain from `infer`" in str(told.explanation)
    assert "infer" not in str(replace(told.explanation, infer=()))


def test_data_is_json(told: Any):
    data = told.explanation.as_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["plan"]["segments"][0]["reasons"][0][0] in {"pinned by the user", "reads most from there"}
    assert len(data["graph"]["names"]) == sum(len(one["nodes"]) for one in data["plan"]["segments"])
    assert data["infer"][0]["name"] == "Twice"


@pytest.mark.parametrize("ending", ["html", "svg", "json"])
def test_each_ending_has_its_form(told: Any, tmp_path: Path, ending: str):
    path = told.explanation.save(tmp_path / f"plan.{ending}")
    begins = {"html": "<!doctype html>", "svg": "<svg ", "json": "{"}
    assert path.read_text(encoding="utf-8").startswith(begins[ending])


def test_another_ending_is_refused(told: Any, tmp_path: Path):
    with pytest.raises(ValueError, match=r"\.html, \.svg or \.json, but 'plan\.pdf' ends in '\.pdf'"):
        told.explanation.save(tmp_path / "plan.pdf")


def test_a_notebook_gets_drawing_and_tables(told: Any):
    html = told.explanation._repr_html_()
    assert "<svg" in html
    assert html.count("<table>") == len(told.explanation.tables())
    assert "<script" not in html


def test_rich_prints_it(told: Any):
    from rich.console import Console

    console = Console(width=140, file=io.StringIO(), record=True)
    console.print(told.explanation)
    assert "Critical path" in console.export_text()


def test_a_long_critical_path_is_told_by_segment(told_long: Any):
    explanation = told_long.explanation
    assert len(explanation.plan.critical) > PATH_NODES
    (path,) = [table for table in explanation.tables() if table.title == "Critical path"]
    assert path.columns[0] == "segment>"
    assert sum(int(row[2].replace(",", "")) for row in path.rows) == len(explanation.plan.critical)


def test_nothing_to_submit_is_said_so(told: Any):
    empty = replace(told.explanation.plan, segments=(), critical=(), moved=())
    explanation = replace(told.explanation, plan=empty, infer=(SignatureWait("Solve", 2, 0.5),))
    (line,) = explanation.summary()
    assert line.startswith("Nothing would be submitted")
    assert [table.columns[0] for table in explanation.tables()] == ["Function"]
    assert replace(explanation, infer=()).tables() == []


def logged(log: list[Any]) -> Any:
    """Return a Function that fills a list of the program."""

    class Logged(rg.autograd.Function):
        @staticmethod
        def infer(x: Any) -> Any:
            return x.shape, x.dtype

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            log.append(1)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    return Logged


@pytest.mark.filterwarnings("ignore:.*of your program")
def test_code_that_changes_captured_objects_has_run_by_then():
    log: list[int] = []
    function = logged(log)
    with rg.Session(workers=2) as session:
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        explanation = session.explain(sum([function.apply(x) for _ in range(4)], rg.zeros(2)))
    assert log == [1] * 4
    assert "Logged" not in explanation.graph.names
    assert "divided over workers" not in " ".join(explanation.summary())


def test_unknown_functions_are_said_to_be_divided_where_they_are():
    said: list[str] = []
    for workers in (1, 2):
        with rg.Session(workers=workers) as session:
            x: Any = rg.tensor([1.0, 2.0])
            explanation = session.explain(sum([New.apply(x) for _ in range(4)], rg.zeros(2)))
        said.append(" ".join(explanation.summary()))
    assert ["never ran" in one for one in said] == [True, True]
    assert ["divided over workers" in one for one in said] == [False, True]
