"""What a session measures counts for its next plan: first runs, other arguments, backward, hints, values."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, cast

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.functions.call_costs import BY_NAME, CallCost
from raygrad.client.recording.records import snapshot
from raygrad.errors import CostsError
from raygrad.proto.ir.function_nodes import FunctionCall
from raygrad.scheduler.explain.explanation import Reason
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.function_costs import Origin
from raygrad.scheduler.model.priced_graph import PricedGraph

SECONDS = 0.2
"""Forward and backward sleep so long."""

MEASURED = 0.9 * SECONDS
"""What is measured of that at least: the time that other threads of this process computed is left out."""


class Sleep(rg.autograd.Function):
    """Sleeps in both directions; nothing is known of it before it runs."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        time.sleep(SECONDS)
        return rg.from_numpy(x.numpy() * 2.0)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        time.sleep(SECONDS)
        return grad * 2.0


class Declared(Sleep):
    """The same, but for its outputs, which are known before it runs."""

    @staticmethod
    def infer(x: Any) -> Any:
        return x.shape, x.dtype


class Quick(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return rg.from_numpy(x.numpy() * 2.0)

    @staticmethod
    def infer(x: Any) -> Any:
        return x.shape, x.dtype

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


class Steps(rg.autograd.Function):
    """Takes as long as its number of steps says."""

    @staticmethod
    def forward(ctx: Any, x: Any, steps: Any) -> Any:
        time.sleep(0.01 * steps)
        return rg.from_numpy(x.numpy() * 2.0)

    @staticmethod
    def infer(x: Any, steps: Any) -> Any:
        return x.shape, x.dtype

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0, None


def leaves(count: int = 4, size: int = 3) -> list[Any]:
    return [rg.tensor(np.full(size, float(k)), requires_grad=True) for k in range(count)]


def share(plan: Any, nodes: Any) -> list[int]:
    """How many of some nodes each worker runs, the fewest first."""
    worker = {node: segment.worker for segment in plan.segments for node in segment.nodes}
    counts = Counter(worker[node] for node in nodes)
    return sorted(counts[one] for one in range(2))


def of_function(explained: Any, name: str, kind: str = "forward") -> list[int]:
    labels = zip(explained.graph.names, explained.graph.kinds, strict=True)
    return [index for index, one in enumerate(labels) if one == (name, kind)]


def origins(explained: Any, name: str, kind: str = "forward") -> set[Origin]:
    return {explained.plan.node_figures[index].origin for index in of_function(explained, name, kind)}


def explain_step(session: rg.Session, function: Any, xs: list[Any], *args: Any) -> Any:
    with session.deferred():
        total: Any = sum([function.apply(x, *args).sum() for x in xs[1:]], function.apply(xs[0], *args).sum())
        total.backward()
        return session.explain()


def test_the_first_run_of_a_function_reaches_the_next_plan() -> None:
    with rg.Session(workers=2) as session:
        xs = leaves()
        Sleep.apply(xs[0])
        explained = explain_step(session, Sleep, xs)
        forward, backward = of_function(explained, "Sleep"), of_function(explained, "Sleep", "backward")
        assert explained.plan.seconds >= 4 * MEASURED
        assert origins(explained, "Sleep") == {Origin.FIRST_RUN}
        assert origins(explained, "Sleep", "backward") == {Origin.FORWARD}
        for node in forward:
            assert MEASURED <= explained.plan.node_seconds[node] < 2 * SECONDS
            assert explained.plan.node_seconds[backward[0]] == pytest.approx(2 * explained.plan.node_seconds[node])
        assert share(explained.plan, forward) == [2, 2]
        assert share(explained.plan, backward) == [2, 2]


def test_the_rest_of_a_first_step_is_divided() -> None:
    """Four applications, of which the first is waited for: the others and all of backward run on both workers."""
    with rg.Session(workers=2) as session:
        xs = leaves()
        total: Any = sum([Sleep.apply(x).sum() for x in xs[1:]], Sleep.apply(xs[0]).sum())
        total.backward()
        report = session.run().wait(60).report()
        ran = {index: one for index, one in enumerate(report.graph.names) if one == "Sleep"}
        assert min(share_of_report(report, ran)) >= 3
        assert xs[3].grad is not None


def share_of_report(report: Any, nodes: Any) -> list[int]:
    worker = {node: segment.worker for segment in report.plan.segments for node in segment.nodes}
    return [sum(worker[node] == one for node in nodes) for one in range(2)]


def test_what_never_ran_is_divided_and_nothing_is_said_against_it() -> None:
    with rg.Session(workers=2) as session:
        explained = explain_step(session, Declared, leaves())
        forward = of_function(explained, "Declared")
        assert share(explained.plan, forward) == [2, 2]
        assert origins(explained, "Declared") == origins(explained, "Declared", "backward") == {Origin.UNKNOWN}
        assert explained.plan.seconds >= 4 * Costs().function_seconds
        assert "never ran" in str(explained)
        assert Reason.TOGETHER not in explained.plan.node_reason


def test_of_a_chain_that_never_ran_nothing_is_said_either() -> None:
    with rg.Session(workers=2) as session:
        (x,) = leaves(1)
        with session.deferred():
            y = Declared.apply(Declared.apply(x))
            reasons = set(session.explain(y).plan.node_reason)
        assert reasons == {Reason.UNKNOWN}
        assert "would not pay" not in str(session.explain(y))


def test_one_small_unknown_node_in_process_is_measured_and_then_all_is_as_before() -> None:
    with rg.Session(workers=2) as session:
        xs = leaves()
        for _ in range(3):
            total: Any = sum([Quick.apply(x).sum() for x in xs[1:]], Quick.apply(xs[0]).sum())
            total.backward()
            session.run().wait(60)
        explained = explain_step(session, Quick, xs)
        assert len({segment.worker for segment in explained.plan.segments}) == 1
        assert explained.plan.seconds < 0.1


def test_other_shapes_are_scaled() -> None:
    with rg.Session(workers=2) as session:
        Declared.apply(leaves(1)[0]).sum().item()
        explained = explain_step(session, Declared, leaves(4, size=1000))
        assert origins(explained, "Declared") == {Origin.SCALED}
        assert all(explained.plan.node_seconds[node] >= MEASURED for node in of_function(explained, "Declared"))


def test_another_session_begins_with_what_was_measured(tmp_path: Any) -> None:
    path = tmp_path / "costs.json"
    with rg.Session(workers=2) as session:
        x = leaves(1)[0]
        Declared.apply(x).sum().backward()
        for value in (1, 1, 40, 40):
            Steps.apply(x, value).sum().item()
        session.costs.save(path)
    with rg.Session(workers=2, costs=path) as session:
        explained = explain_step(session, Declared, leaves())
        assert origins(explained, "Declared") == {Origin.FIRST_RUN}
        assert origins(explained, "Declared", "backward") == {Origin.FIRST_RUN}
        assert explained.plan.seconds >= 4 * MEASURED
        explained = explain_step(session, Steps, leaves(1), 40)
        assert explained.plan.node_seconds[of_function(explained, "Steps")[0]] >= 0.36


def test_a_file_of_an_older_version_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"raygrad costs": 1, "links": {}, "nodes": {}}', encoding="utf-8")
    with pytest.raises(CostsError, match="of version 1; this raygrad reads 2"):
        rg.Session(workers=1, costs=path)


# ---- hints ---------------------------------------------------------------------------------------------------------


class Hinted(Declared):
    cost = 5.0


class HintedByArguments(Steps):
    @staticmethod
    def cost(x: Any, steps: Any) -> float:
        return 0.01 * steps * x.shape[0]


def test_a_hint_is_for_the_first_run() -> None:
    with rg.Session(workers=2) as session:
        xs = leaves()
        explained = explain_step(session, Hinted, xs)
        assert origins(explained, "Hinted") == origins(explained, "Hinted", "backward") == {Origin.HINT}
        assert {explained.plan.node_seconds[node] for node in of_function(explained, "Hinted")} == {5.0}
        assert {explained.plan.node_seconds[node] for node in of_function(explained, "Hinted", "backward")} == {10.0}
        assert "hint" in str(explained)
        session.run().wait(60)
        explained = explain_step(session, Hinted, xs)
        assert origins(explained, "Hinted") == {Origin.FIRST_RUN}
        assert explained.plan.node_seconds[of_function(explained, "Hinted")[0]] < 1.0


def test_a_hint_may_follow_from_specs_and_other_arguments() -> None:
    with rg.Session(workers=2) as session:
        xs = leaves(3, size=2)
        with session.deferred():
            total: Any = sum(
                [HintedByArguments.apply(x, steps).sum() for x, steps in zip(xs, (1, 10, 100), strict=True)]
            )
            explained = session.explain(total)
            seconds = [explained.plan.node_seconds[node] for node in of_function(explained, "HintedByArguments")]
            assert seconds == [pytest.approx(one, rel=0.13) for one in (0.02, 0.2, 2.0)]


@pytest.mark.parametrize(
    ("cost", "error", "message"),
    [
        ("soon", TypeError, r"Wrong.cost must be seconds, or a function of the arguments, not 'soon'"),
        (True, TypeError, r"must be seconds"),
        (-1.0, ValueError, r"Wrong.cost .*a time is more than 0 and finite, not -1.0"),
        (0, ValueError, r"more than 0"),
        (float("nan"), ValueError, r"finite"),
        (staticmethod(lambda x: "soon"), TypeError, r"for Wrong.apply at .*Wrong.cost must return seconds, .*'soon'"),
        (staticmethod(lambda x: float("inf")), ValueError, r"finite, not inf"),
    ],
)
def test_a_hint_that_is_none_is_refused_before_anything_runs(cost: Any, error: type[Exception], message: str) -> None:
    wrong = type("Wrong", (Sleep,), {"cost": cost})
    with rg.Session(workers=1) as session:
        with pytest.raises(error, match=message):
            wrong.apply(leaves(1)[0])
        assert session.last_run is None


def test_numbers_of_other_libraries_and_none_are_hints_too() -> None:
    unknown = staticmethod(lambda x: None)
    for cost, origin in (
        (np.float32(2.0), Origin.HINT),
        (3, Origin.HINT),
        (None, Origin.UNKNOWN),
        (unknown, Origin.UNKNOWN),
    ):
        with rg.Session(workers=2) as session:
            function = type("Given", (Declared,), {"cost": cost})
            assert origins(explain_step(session, function, leaves()), "Given") == {origin}
            session.close(discard=True)


# ---- values of other arguments -------------------------------------------------------------------------------------


def test_times_that_differ_between_values_are_kept_per_value() -> None:
    with rg.Session(workers=2) as session:
        x = leaves(1)[0]
        for steps in (1, 1, 30, 1, 30):
            Steps.apply(x, steps).sum().backward()
            session.run().wait(60)
        xs = leaves(3)
        with session.deferred():
            total: Any = sum([Steps.apply(x, steps).sum() for x, steps in zip(xs, (1, 30, 1), strict=True)])
            explained = session.explain(total)
            seconds = [explained.plan.node_seconds[node] for node in of_function(explained, "Steps")]
        assert seconds[1] > 0.25
        assert seconds[0] == seconds[2] < 0.1
        assert origins(explained, "Steps") == {Origin.MEASURED}
        assert [row.values for row in session.costs.rows() if row.values and "vjp" not in row.kind] == ["30", "1"]


def test_replays_of_a_compiled_call_are_measured_per_value_too() -> None:
    with rg.Session(workers=2) as session:
        x = leaves(1)[0]
        for steps in (1, 30, 1, 30):
            Steps.apply(x, steps).sum().item()
        step = session.compile(lambda x: Steps.apply(x, 1).sum() + Steps.apply(x, 30).sum())

        def runs() -> int:
            return sum(row.runs for row in session.costs.rows() if row.values)

        step(x).item()
        step(x).item()
        before = runs()
        step(x).item()
        assert runs() == before + 2


def test_a_call_that_was_compiled_before_anything_was_measured_is_planned_by_what_its_values_take() -> None:
    steps = (20, 20, 1, 1, 1, 1)
    with rg.Session(workers=2) as session:

        def summed(x: Any) -> Any:
            parts = [Steps.apply(x, count).sum() for count in steps]
            return sum(parts[1:], parts[0])

        step = session.compile(summed)
        x = leaves(1)[0]
        for _ in range(6):
            step(x).item()
        run: Any = session.last_run
        assert [hint.values for hint in run._graph.hints] == [str(count) for count in steps]
        costs = PricedGraph(run._graph, session.costs.model)
        calls = [index for index, node in enumerate(run._graph.nodes) if isinstance(node, FunctionCall)]
        seconds = [costs.seconds[index] for index in calls]
        assert min(seconds[:2]) > 0.15 > 0.1 > max(seconds[2:])
        assert step.recorded == 1


def test_values_that_make_no_difference_make_no_other_plan() -> None:
    with rg.Session(workers=2) as session:
        x = leaves(1)[0]
        for steps in range(5):
            Steps.apply(x, steps * 1e-3).sum().item()
        planner = cast("Any", session._driver).planner
        before = planner.misses
        for steps in range(5, 25):
            Steps.apply(x, steps * 1e-3).sum().item()
        assert planner.misses <= before + 2, "a pause of the machine may look like a difference for a while"


@pytest.mark.ray
def test_branches_that_never_ran_and_their_backwards_run_on_both_workers_at_once() -> None:
    with rg.Session("ray", workers=2) as session:
        xs = leaves()
        with session.deferred():
            total: Any = sum([Declared.apply(x).sum() for x in xs[1:]], Declared.apply(xs[0]).sum())
            total.backward()
        report = session.run().wait(120).report()
        names, kinds = report.graph.names, report.graph.kinds
        for kind in ("forward", "backward"):
            nodes = [i for i, one in enumerate(zip(names, kinds, strict=True)) if one == ("Declared", kind)]
            assert share_of_report(report, nodes) == [2, 2]


def test_a_call_is_told_apart_by_plain_and_pickled_arguments_whatever_their_names() -> None:
    large = np.zeros(3)

    def values(*arguments: Any) -> str:
        return CallCost(0.0, arguments).values()

    assert values((int, 3), (str, "mean"), (BY_NAME, "steps", (float, 0.5))) == "3, 'mean', steps=0.5"
    assert values(snapshot(large)[1], snapshot(True)[1]) == "True"
    assert values(snapshot({"a": 1})[1]) == values(snapshot({"a": 1})[1]) != values(snapshot({"a": 2})[1])
    assert values(snapshot(large)[1]) == ""
    assert len(values((str, "x" * 1000))) < 80
    assert len({values((int, 1)), values((float, 1.0)), values((bool, True))}) == 3
