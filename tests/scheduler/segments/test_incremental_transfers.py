from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.arrays import graph_arrays, offsets
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import OnWorker
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges
from raygrad.scheduler.segments.array_transfers import ArrayTransferPlanner
from raygrad.scheduler.segments.incremental_transfers import update_transfers
from raygrad.scheduler.segments.segmenter import Block, segment_graph

from ..blocks import block_arrays


def same(one, other):
    """Two planners and their transfers are equal."""
    (planner, transfers), (expected_planner, expected) = one, other
    assert transfers.planned == expected.planned
    assert transfers.between == expected.between
    for name in ("reader", "source", "size"):
        assert getattr(transfers.flow, name).tolist() == getattr(expected.flow, name).tolist(), name
    for name in ("external", "crossing_reads"):
        assert [some.tolist() for some in getattr(planner, name)] == [
            some.tolist() for some in getattr(expected_planner, name)
        ]
    assert planner.residual.tolist() == expected_planner.residual.tolist()


def window(arrays, home, count, node):
    """Return the blocks that a node may be in, with its own only if nothing there has to do with it."""
    makers = [int(home[arrays.maker[one]]) for one in arrays.graph.nodes[node].inputs if one >= 0 <= arrays.maker[one]]
    made = range(int(arrays.first[node]), int(arrays.first[node + 1]))
    readers = [int(home[arrays.reader[at]]) for at, one in enumerate(arrays.read.tolist()) if one in made]
    return range(max(makers, default=-1) + 1, min(readers, default=count))


@pytest.mark.slow
@given(data=st.data())
def test_after_any_moves_segments_are_those_that_would_be_found_anew(graphs, data):
    graph = data.draw(graphs(least=1))
    count = len(graph.nodes)
    workers = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    residency = data.draw(st.lists(st.integers(-1, 2), min_size=len(graph.externals), max_size=len(graph.externals)))
    priced, arrays = PricedGraph(graph, Costs()), graph_arrays(PricedGraph(graph, Costs()))
    blocks = block_arrays(
        segment_graph(priced, node_edges(priced), workers, residency, Costs(call_seconds=0.0)).blocks, count
    )
    planner = ArrayTransferPlanner(arrays, blocks)
    transfers = planner.run(residency)
    for _ in range(2):
        home, worker, many = blocks.home.copy(), blocks.worker.copy(), len(blocks.worker)
        moved = []
        for node in data.draw(st.lists(st.integers(0, count - 1), max_size=3, unique=True)):
            to = [one for one in window(arrays, home, many, node) if one != home[node]]
            if to and np.bincount(home, minlength=many)[home[node]] > 1:
                home[node] = data.draw(st.sampled_from(to))
                moved.append(node)
        for block in data.draw(st.lists(st.integers(0, many - 1), max_size=2)):
            worker[block] = (worker[block] + 1) % 3
        order = np.append(blocks.order[~np.isin(blocks.order, moved)], np.array(moved, np.int64))
        blocks = replace(
            blocks,
            order=order[np.argsort(home[order], kind="stable")],
            ends=offsets(np.bincount(home, minlength=many)),
            home=home,
            worker=worker,
        )
        elsewhere = np.flatnonzero((worker != planner.blocks.worker)[planner.blocks.home])
        nodes = np.union1d(np.array(moved, np.int64), elsewhere)
        nodes = np.union1d(nodes, np.flatnonzero((worker != planner.blocks.worker)[home]))
        planner, transfers = update_transfers(planner, transfers, blocks, nodes, residency)
        fresh = ArrayTransferPlanner(arrays, blocks)
        same((planner, transfers), (fresh, fresh.run(residency)))


def test_workers_may_have_other_numbers(builder):
    build = builder()
    build.keep_on_worker(build.op("sin", build.op("sin", 0)))
    graph = build.graph()
    arrays = graph_arrays(PricedGraph(graph, Costs()))
    blocks = block_arrays([Block(1, [0]), Block(2, [1])], 2)
    planner = ArrayTransferPlanner(arrays, blocks)
    other = replace(blocks, worker=blocks.worker - 1)
    _, transfers = update_transfers(planner, planner.run((-1,)), other, np.zeros(0, np.int64), (-1,))
    assert transfers.planned == ArrayTransferPlanner(arrays, other).run((-1,)).planned
    assert list(transfers.planned.kept.values()) == [OnWorker(1, 1)]


def test_readers_of_an_object_learn_its_new_number(builder):
    build = builder(externals=3)
    one, other, third = (build.op("sin", external) for external in range(3))
    build.keep_on_worker(build.op("sin", one), build.op("sin", other), third)
    arrays = graph_arrays(PricedGraph(build.graph(), Costs()))
    blocks = block_arrays([Block(0, [0, 1]), Block(1, [2]), Block(2, [3]), Block(1, [4])], 5)
    planner = ArrayTransferPlanner(arrays, blocks)
    transfers = planner.run((-1,) * 3)
    assert transfers.planned.segments[3].imports == ((0, 1),)
    after = block_arrays([Block(0, [1]), Block(1, [2, 0]), Block(2, [3]), Block(1, [4])], 5)
    changed = update_transfers(planner, transfers, after, np.array([0]), (-1,) * 3)
    fresh = ArrayTransferPlanner(arrays, after)
    same(changed, (fresh, fresh.run((-1,) * 3)))
    assert changed[1].planned.segments[3].imports == ((0, 0),)
