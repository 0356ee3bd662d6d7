"""Graphs of submissions: what is needed, what is hashed, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import raygrad as rg
from raygrad.client.submission.submission import build, needed_records
from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.ir.graph import KEEP_IN_STORE, KEEP_ON_WORKER, Graph, structural_hash


def graph_of(program: Callable[[], Any], stamp: int = 1) -> Graph:
    """Return the graph that `program` records; nothing is run."""
    session = rg.Session(workers=1)
    recorder = session._recorder
    try:
        with_held = None
        from raygrad.autograd.core.modes import state

        state.recorder = recorder
        try:
            with_held = program()
        finally:
            state.recorder = None
        records = needed_records(recorder.log.records, stamp)
        submission = build(stamp, records).submission
        graph = submission.graph
        assert structural_hash(encode_graph(graph)) == submission.key
        del with_held
        return graph
    finally:
        session.close(discard=True)


def scaled(factor: float, start: float = 1.0) -> Callable[[], Any]:
    def program() -> Any:
        x = rg.tensor([start, 2.0])
        return (x * factor).sum()

    return program


def test_h9_values_of_leaves_and_numbers_do_not_change_the_hash() -> None:
    hashes = {structural_hash(encode_graph(graph_of(scaled(f, s)))) for f, s in ((1.0, 1.0), (0.5, 1.0), (2.0, 7.0))}
    assert len(hashes) == 1


def test_h9_slice_bounds_do_not_change_the_hash_while_the_spec_stays() -> None:
    def part(start: int) -> Callable[[], Any]:
        return lambda: rg.tensor([float(i) for i in range(10)])[start : start + 4] * 2.0

    assert encode_graph(graph_of(part(0))) == encode_graph(graph_of(part(3)))


def test_h9_shapes_dtypes_and_axes_do_change_the_hash() -> None:
    def over(dim: int) -> Callable[[], Any]:
        return lambda: rg.zeros(3, 3).sum(dim)

    graphs = [graph_of(over(0)), graph_of(over(1)), graph_of(lambda: rg.zeros(3, 4).sum(0)), graph_of(scaled(1.0))]
    assert len({encode_graph(graph) for graph in graphs}) == 4


def test_h21_nodes_that_nobody_holds_are_left_out() -> None:
    def program() -> Any:
        x = rg.tensor([1.0, 2.0])
        (x * 2.0).exp()  # dropped at once
        return x + 1.0

    assert [node.fn for node in graph_of(program).nodes] == ["add"]


def test_values_inside_a_chain_are_not_kept() -> None:
    graph = graph_of(lambda: (rg.tensor([1.0]) * 2.0).sin().cos())
    assert len(graph.nodes) == 3
    assert [mode for _, mode in graph.keep] == [KEEP_ON_WORKER]


def test_residuals_of_a_backward_to_come_are_kept_in_the_store() -> None:
    def program() -> Any:
        x = rg.tensor([1.0], requires_grad=True)
        return (x * 2.0).sin().exp()

    assert KEEP_IN_STORE in [mode for _, mode in graph_of(program).keep]


def test_backward_in_the_same_submission_keeps_nothing_but_results() -> None:
    def program() -> Any:
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        return x, (x * 2.0).sin().sum()

    session = rg.Session(workers=1)
    with session:
        x, loss = program()
        loss.backward()
        assert session.last_run is not None
        assert session.last_run.plan.kept.keys()
        assert len(session.last_run.plan.kept) == 2
        assert x.grad is not None
    assert session.saved_bytes == 0


@pytest.mark.parametrize("count", [1, 3])
def test_equal_steps_have_equal_bytes(count: int) -> None:
    def program() -> Any:
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        y = x
        for _ in range(count):
            y = y * x
        return y.sum()

    assert encode_graph(graph_of(program, 5)) == encode_graph(graph_of(program, 9))
