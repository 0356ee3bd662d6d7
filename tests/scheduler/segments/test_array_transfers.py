from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raygrad.scheduler.model.arrays import arrays_of
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.priced_graph import link, price
from raygrad.scheduler.segments.array_transfers import Crosser, blocks_of
from raygrad.scheduler.segments.segmenter import Block, cut
from raygrad.scheduler.segments.transfers import cross


@pytest.mark.slow
@given(data=st.data())
def test_segments_are_those_that_a_walk_over_the_values_finds(graphs, data):
    graph = data.draw(graphs(least=1))
    count = len(graph.nodes)
    workers = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    residency = data.draw(st.lists(st.integers(-1, 2), min_size=len(graph.externals), max_size=len(graph.externals)))
    priced = price(graph, Costs())
    blocks = cut(priced, link(priced), workers, residency, Costs(call_seconds=0.0)).blocks
    arrays = arrays_of(graph, Costs())
    crosser = Crosser(arrays, blocks_of(blocks, count))
    assert crosser.run(residency).crossing == cross(priced, blocks, residency)
    staying = Crosser(arrays, blocks_of(blocks, count), saved_stays=True)
    assert staying.run(residency).crossing == cross(priced, blocks, residency, saved_stays=True)
    moved = [
        Block((block.worker + 1) % 3 if number % 2 else block.worker, block.nodes)
        for number, block in enumerate(blocks)
    ]
    assert blocks_of(blocks, count).as_lists() == blocks
    crosser = Crosser(arrays, blocks_of(moved, count))
    assert crosser.run(residency).crossing == cross(priced, moved, residency)
