from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.arrays import graph_arrays
from raygrad.scheduler.model.costs import Costs, LinkCost
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges
from raygrad.scheduler.segments import array_timetable, timetable as predict_module
from raygrad.scheduler.segments.array_timetable import segment_times
from raygrad.scheduler.segments.array_transfers import ArrayTransferPlanner
from raygrad.scheduler.segments.segmenter import segment_graph
from raygrad.scheduler.segments.timetable import predict_seconds, segment_loads, timetable

from ..blocks import block_arrays

COSTS = (
    Costs(),
    Costs(store_bandwidth=1e4),
    Costs(call_seconds=1e-5, hop_seconds=5e-5, send_seconds=1e-3, submit_seconds=1e-4, return_seconds=2e-3),
    Costs(
        follow_seconds=1e-3, give_bandwidth=1e8, links={("a", "b"): LinkCost(0.5, 32.0), ("b", "z"): LinkCost(0.1, 1.0)}
    ),
)


CLUSTER = Cluster(tuple(WorkerSpec(f"worker {number}", host=host) for number, host in enumerate("aba")))


@pytest.mark.slow
@given(data=st.data(), few=st.sampled_from([0, 3, 100]))
def test_segments_run_when_a_walk_over_them_says(graphs, data, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array_timetable, "FEW", few)
        for module in (array_timetable, predict_module):
            patch.setattr(module, "INLINE_RESULT_BYTES", 8)
        compared(graphs, data)


def compared(graphs, data):
    graph = data.draw(graphs(least=1))
    count = len(graph.nodes)
    costs = data.draw(st.sampled_from(COSTS))
    workers = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    residency = data.draw(st.lists(st.integers(-1, 2), min_size=len(graph.externals), max_size=len(graph.externals)))
    priced = PricedGraph(graph, costs)
    blocks = segment_graph(priced, node_edges(priced), workers, residency, replace(costs, call_seconds=0.0)).blocks
    planner = ArrayTransferPlanner(graph_arrays(PricedGraph(graph, costs)), block_arrays(blocks, count))
    transfers = planner.run(residency)
    segments = transfers.planned.segments
    times = segment_times(segments, planner, transfers.flow, residency, costs, CLUSTER)
    loads = segment_loads(segments, priced)
    slots = timetable(segments, loads, residency, costs, CLUSTER)
    assert times.start.tolist() == pytest.approx([slot.start for slot in slots])
    assert times.end.tolist() == pytest.approx([slot.end for slot in slots])
    assert (times.ready <= times.start).all()
    assert times.seconds == pytest.approx(predict_seconds(segments, loads, residency, costs, CLUSTER))
