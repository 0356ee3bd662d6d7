from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.arrays import graph_arrays
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges
from raygrad.scheduler.segments.array_transfers import ArrayTransferPlanner
from raygrad.scheduler.segments.segmenter import Block, segment_graph
from raygrad.scheduler.segments.transfers import plan_transfers

from ..blocks import block_arrays


@pytest.mark.slow
@given(data=st.data())
def test_segments_are_those_that_a_walk_over_the_values_finds(graphs, data):
    graph = data.draw(graphs(least=1))
    count = len(graph.nodes)
    workers = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    residency = data.draw(st.lists(st.integers(-1, 2), min_size=len(graph.externals), max_size=len(graph.externals)))
    priced = PricedGraph(graph, Costs())
    blocks = segment_graph(priced, node_edges(priced), workers, residency, Costs(call_seconds=0.0)).blocks
    arrays = graph_arrays(PricedGraph(graph, Costs()))
    planner = ArrayTransferPlanner(arrays, block_arrays(blocks, count))
    assert planner.run(residency).planned == plan_transfers(priced, blocks, residency)
    staying = ArrayTransferPlanner(arrays, block_arrays(blocks, count), saved_stays=True)
    assert staying.run(residency).planned == plan_transfers(priced, blocks, residency, saved_stays=True)
    moved = [
        Block((block.worker + 1) % 3 if number % 2 else block.worker, block.nodes)
        for number, block in enumerate(blocks)
    ]
    planner = ArrayTransferPlanner(arrays, block_arrays(moved, count))
    assert planner.run(residency).planned == plan_transfers(priced, moved, residency)
