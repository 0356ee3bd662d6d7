from typing import Any, cast

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import CostsError
from raygrad.scheduler.model.measured_costs import Estimate, MeasuredCosts, PlanTimes


def step(x):
    """A pass whose graph is the same each time; returns the gradient."""
    x.grad = None
    branches = [((x * float(k)) @ x).sin().sum() for k in range(1, 5)]
    rg.stack(branches).sum().backward()
    assert x.grad is not None
    return x.grad.numpy()


def leaf():
    return rg.tensor(np.random.default_rng(0).standard_normal((40, 40)), requires_grad=True)


def test_runs_teach_what_their_nodes_cost():
    with rg.Session(workers=1) as session:
        step(leaf())
        rows = session.costs.rows()
        run = session.run().wait()
    matmul = next(row for row in rows if row.kind == "op matmul cpu 14,14>14")
    assert matmul.seconds > 0
    assert matmul.runs == 1
    assert [row.seconds for row in rows] == sorted([row.seconds for row in rows], reverse=True)
    assert session.costs.runs >= 1
    assert run.seconds is not None
    assert run.seconds > 0


def test_a_run_that_has_not_ended_has_no_time():
    with rg.Session(workers=1) as session:
        run = session.run(leaf() * 2.0)
        assert run.seconds is None or run.finished
        assert run.wait().seconds is not None


def test_costs_are_saved_and_another_session_begins_with_them(tmp_path):
    path = tmp_path / "costs.json"
    with rg.Session(workers=2) as session:
        expected = step(leaf())
        session.costs.save(path)
        model = session.costs.model
    assert [file.name for file in tmp_path.iterdir()] == ["costs.json"]
    with rg.Session(workers=2, costs=path) as session:
        assert session.costs.model.factors == model.factors
        assert np.array_equal(step(leaf()), expected)


def test_a_file_that_holds_no_costs_is_refused_before_workers_start(tmp_path):
    path = tmp_path / "costs.json"
    for text in ("", "[1]", '{"raygrad costs": 99}', "\x80", "[" * 100_000):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(CostsError, match=r"costs\.json' is no file of costs"):
            rg.Session(workers=1, costs=path)
    with pytest.raises(FileNotFoundError):
        rg.Session(workers=1, costs=tmp_path / "none.json")


def test_a_plan_changes_between_runs_and_gradients_stay_to_the_last_bit(monkeypatch):
    """What is measured is moved by hand, so that it pays to change the plan, whatever this machine is like."""
    with rg.Session(workers=1) as session:
        expected = step(leaf())
    spans = {}
    monkeypatch.setattr(MeasuredCosts, "span_of", lambda _, plan: spans.setdefault(plan.hash, PlanTimes()))
    with rg.Session(workers=2) as session:
        x, workers = leaf(), []
        for _ in range(12):
            for name, known in session.costs._measured.kinds.items():
                slow = 100.0 if "matmul" in name else 1.0
                session.costs._measured.kinds[name] = Estimate(slow, 0.0, known.seconds, 9)
            assert step(x).tobytes() == expected.tobytes()
            plan = session.run().wait().plan
            workers.append({segment.worker for segment in plan.segments})
            spans[plan.hash] = PlanTimes(60.0 if len(workers[-1]) == 1 else 1e-3, 2, measured=2)
        assert cast("Any", session._driver).planner.changes >= 1
    assert len(workers[0]) == 1
    assert all(both == {0, 1} for both in workers[-4:])


def test_a_plan_stays_while_costs_only_become_better_known():
    with rg.Session(workers=2) as session:
        x = leaf()
        for _ in range(8):
            step(x)
        planner = cast("Any", session._driver).planner
        assert planner.misses <= 2, "the first graph, and the one whose leaf the workers have"
        assert session.costs.model.epoch > 1
