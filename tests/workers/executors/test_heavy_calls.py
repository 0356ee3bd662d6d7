from __future__ import annotations

from typing import Any

from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.ir.program import Program
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import Planner
from raygrad.workers.executors.heavy_calls import FIRST_RUN_SECONDS, HEAVY_SECONDS, HeavyCalls


def program_of(graphs: Any, *functions: str) -> Program:
    g = graphs()
    made = [g.call(name, 0) for name in functions] or [g.mul(0, 0)]
    g.keep(*made)
    graph = g.graph()
    (program,) = Planner(Cluster.of(1)).plan(graph, (-1,), encode_graph(graph)).programs
    return program


def test_a_call_is_as_heavy_as_predicted_until_its_program_has_run(graphs: Any):
    calls = HeavyCalls()
    calls.load(b"k", program_of(graphs, "f"))
    assert not calls.is_heavy(b"k", 0.0)
    assert calls.is_heavy(b"k", HEAVY_SECONDS)


def test_the_latest_run_of_a_program_counts_more_than_what_is_predicted(graphs: Any):
    calls = HeavyCalls()
    calls.load(b"k", program_of(graphs, "f"))
    calls.ran(b"k", 2.0)
    assert calls.is_heavy(b"k", 0.0)
    calls.ran(b"k", 1e-5)
    assert not calls.is_heavy(b"k", 5.0)


def test_a_first_run_counts_only_if_it_took_longer_than_compiling(graphs: Any):
    calls = HeavyCalls()
    calls.load(b"k", program_of(graphs, "f"))
    calls.ran(b"k", FIRST_RUN_SECONDS / 2)
    assert not calls.is_heavy(b"k", 0.0)
    calls.ran(b"k", FIRST_RUN_SECONDS / 2)
    assert calls.is_heavy(b"k", 0.0)


def test_user_code_may_have_to_stay_where_it_is(graphs: Any):
    calls = HeavyCalls(with_user_code=False)
    calls.load(b"k", program_of(graphs, "f"))
    calls.load(b"l", program_of(graphs))
    assert not calls.is_heavy(b"k", 5.0)
    calls.ran(b"k", 5.0)
    assert not calls.is_heavy(b"k", 5.0)
    assert (calls.may_hop(b"k"), calls.may_hop(b"l")) == (False, True)
    assert calls.is_heavy(b"l", 5.0)
