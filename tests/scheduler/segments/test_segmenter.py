import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.function_costs import KnownKind, KnownTime
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges
from raygrad.scheduler.segments.segmenter import segment_graph

COSTS = Costs(functions={"@f": {"": KnownKind(KnownTime(Costs().function_overhead, 1.0, runs=3), {})}})
"""`f` takes as long as its prior says: about as long as a call."""


def cut_graph(graph, node_worker, costs=COSTS, residency=None):
    priced = PricedGraph(graph, costs)
    residency = [-1] * len(graph.externals) if residency is None else residency
    return segment_graph(priced, node_edges(priced), node_worker, residency, costs)


def check_order(graph, node_worker, blocks):
    """Each node once, on its worker, after what it reads: so the blocks are the parts of an acyclic quotient (H6)."""
    order = [index for block in blocks for index in block.nodes]
    assert sorted(order) == list(range(len(graph.nodes)))
    assert all(block.nodes for block in blocks)
    assert all(node_worker[index] == block.worker for block in blocks for index in block.nodes)
    maker = PricedGraph(graph, COSTS).maker
    position = {index: place for place, index in enumerate(order)}
    for index, node in enumerate(graph.nodes):
        for value in node.inputs:
            if value >= 0 and maker[value] >= 0:
                assert position[maker[value]] < position[index]


def test_h6_the_exchange_of_two_convex_pairs_gets_an_order(builder):
    build = builder(externals=2)
    x, y = 0, 1
    a = build.op("f", x)
    c = build.op("f", y)
    build.op("g", y, a)  # d
    build.op("g", x, c)  # b
    graph = build.graph()
    node_worker = [0, 1, 1, 0]
    blocks = cut_graph(graph, node_worker).blocks
    check_order(graph, node_worker, blocks)
    assert [(block.worker, block.nodes) for block in blocks] == [(0, [0]), (1, [1, 2]), (0, [3])]


@pytest.mark.slow
@given(data=st.data())
def test_h6_any_assignment_of_any_graph_gives_blocks_with_an_acyclic_quotient(graphs, data):
    graph = data.draw(graphs())
    node_worker = data.draw(st.lists(st.integers(0, 3), min_size=len(graph.nodes), max_size=len(graph.nodes)))
    costs = data.draw(st.sampled_from([COSTS, Costs(call_seconds=0.0), Costs(call_seconds=10.0)]))
    residency = data.draw(st.lists(st.integers(-1, 3), min_size=len(graph.externals), max_size=len(graph.externals)))
    made = cut_graph(graph, node_worker, costs, residency)
    check_order(graph, node_worker, made.blocks)
    assert made == cut_graph(graph, node_worker, costs, residency)
    if graph.open_ended:
        assert made.blocks[-1].nodes[-1] == len(graph.nodes) - 1
    if graph.nodes:
        assert made.seconds > 0


def test_one_worker_runs_everything_as_one_block_without_looking_at_edges(builder):
    build = builder()
    build.op("f", build.op("f", 0))
    made = segment_graph(PricedGraph(build.graph(), COSTS), None, [0, 0], [-1], COSTS)
    assert [(block.worker, block.nodes) for block in made.blocks] == [(0, [0, 1])]


def test_a_graph_without_nodes_has_no_blocks(builder):
    assert cut_graph(builder().graph(), []) == ([], 0.0)


def test_a_block_is_cut_before_it_would_wait_for_long(builder):
    build = builder()
    mine = other = 0
    for _ in range(20):
        mine = build.function("f", mine)[1]
    for _ in range(20):
        other = build.function("f", other)[1]
    build.sum(mine, other)
    node_worker = [0] * 20 + [1] * 20 + [0]
    blocks = cut_graph(build.graph(), node_worker).blocks
    assert [(block.worker, len(block.nodes)) for block in blocks] == [(0, 20), (1, 20), (0, 1)]


def test_a_block_is_cut_after_what_another_worker_waits_for(builder):
    build = builder()
    first = build.function("f", 0)[1]
    build.op("sin", first)
    rest = first
    for _ in range(20):
        rest = build.function("f", rest)[1]
    node_worker = [0, 1] + [0] * 20
    blocks = cut_graph(build.graph(), node_worker).blocks
    assert (0, [0]) in [(block.worker, block.nodes) for block in blocks]


def test_a_block_is_not_cut_where_waiting_costs_less_than_a_call(builder):
    build = builder()
    first = build.op("sin", 0)
    build.op("sin", first)
    for _ in range(20):
        build.op("sin", first)
    blocks = cut_graph(build.graph(), [0, 1] + [0] * 20).blocks
    assert [(block.worker, len(block.nodes)) for block in blocks] == [(0, 21), (1, 1)]


def test_many_awaited_nodes_share_cuts(builder):
    build = builder()
    value = 0
    node_worker = []
    for _ in range(500):
        value = build.op("sin", value)
        build.op("cos", value)
        node_worker += [0, 1]
    blocks = cut_graph(build.graph(), node_worker).blocks
    mine = [block for block in blocks if block.worker == 0]
    work = 500 * PricedGraph(build.graph(), COSTS).seconds[0]
    assert 2 <= len(mine) <= 1 + work / COSTS.call_seconds


def test_a_head_is_cut_off_where_an_external_has_to_come_from_another_worker(builder):
    build = builder(externals=2)
    value = 0
    for _ in range(20):
        value = build.function("f", value)[1]
    build.sum(value, 1)
    build.op("sin", 0)
    blocks = cut_graph(build.graph(), [0] * 21 + [1], residency=[-1, 1]).blocks
    assert [(block.worker, len(block.nodes)) for block in blocks] == [(0, 20), (1, 1), (0, 1)]


def test_every_worker_s_first_segment_is_sent_before_any_worker_s_second(builder):
    build = builder(externals=1)
    for _ in range(12):
        build.function("f", 0)
    costs = Costs(functions={"@f": {"": KnownKind(KnownTime(2e-4, 250.0, runs=3), {})}})
    blocks = cut_graph(build.graph(), [0] * 6 + [1] * 6, costs).blocks
    assert {block.worker for block in blocks[:2]} == {0, 1}
    assert len(blocks) > 3


def test_an_open_ended_node_stays_last_however_early_it_may_start(builder):
    build = builder(externals=1)
    for _ in range(6):
        build.function("f", 0)
    build.function("g", 0)
    graph = build.graph()._replace(open_ended=True)
    blocks = cut_graph(graph, [0] * 6 + [1]).blocks
    assert blocks[-1] == (1, [6])


def test_heavy_work_does_not_wait_for_what_only_a_later_node_reads(builder):
    """The other worker's value is predicted to be there in time, and may come late."""
    build = builder()
    value = 0
    for _ in range(20):
        value = build.function("f", value)[1]
    late = build.op("sin", 0)
    value = build.sum(value, late)
    for _ in range(20):
        value = build.function("f", value)[1]
    again = build.op("cos", late)
    build.sum(value, again)
    blocks = cut_graph(build.graph(), [0] * 20 + [1] + [0] * 21 + [0, 0]).blocks
    mine = [block.nodes for block in blocks if block.worker == 0]
    assert mine[0] == list(range(20))
    assert len(mine) == 2  # nothing waits again for a segment that was waited for


def test_a_light_node_may_wait_with_what_follows(builder):
    build = builder()
    late = build.function("f", build.function("f", 0)[1])[1]
    early = build.op("sin", 0)
    build.sum(early, late)
    blocks = cut_graph(build.graph(), [1, 1, 0, 0]).blocks
    assert [(block.worker, len(block.nodes)) for block in blocks] == [(1, 2), (0, 2)] or len(blocks) == 3


def test_a_branch_is_completed_before_the_next_one_is_begun(builder):
    build = builder(externals=4)
    tapes = [build.function("f", branch) for branch in range(4)]
    one = build.op("full")
    for context, _ in reversed(tapes):
        build.function_vjp("f", context, one, -1)
    costs = Costs(function_seconds=0.02, call_seconds=1e-4)
    for node_worker in ([0, 0, 1, 1, 0, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1, 0, 0]):
        made = cut_graph(build.graph(), node_worker, costs)
        order = [[node for block in made.blocks if block.worker == one for node in block.nodes] for one in (0, 1)]
        heavy = [[node for node in some if node != 4] for some in order]
        assert heavy[0] == [0, 8, 1, 7]
        assert heavy[1] == [2, 6, 3, 5]


def test_a_chain_is_cut_only_where_it_holds_too_much(builder):
    build = builder()
    value = 0
    for _ in range(40):
        value = build.function("f", value)[1]
    build.function("f", 0)
    costs = Costs(function_seconds=0.01)
    made = cut_graph(build.graph(), [0] * 40 + [1], costs)
    work = [len(block.nodes) * 0.01 for block in made.blocks if block.worker == 0]
    assert max(work) <= 0.05 * 0.4 + 0.01 + 1e-3
