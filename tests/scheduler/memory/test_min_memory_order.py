import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.memory.memory_ledger import MemoryUse
from raygrad.scheduler.memory.min_memory_order import min_memory_order
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges

COSTS = Costs()


def ordered(graph):
    priced = PricedGraph(graph, COSTS)
    return min_memory_order(priced, node_edges(priced))


def peak(graph, order):
    priced = PricedGraph(graph, COSTS)
    return MemoryUse(priced, [0] * len(graph.nodes), [-1] * len(graph.externals), 1).peak(0, order)


def training(build, batches, stages=3):
    """Branches with parameters: all losses are summed first, then backward of all, and gradients are summed in
    trees, as a session records them. The externals are the batches, then one parameter per stage, then a one."""
    parameters = range(batches, batches + stages)
    tapes, losses = [], []
    for batch in range(batches):
        value, tape = batch, []
        for parameter in parameters:
            context, out = build.function("f", value, parameter)
            tape.append((context, value, parameter))
            value = out
        tapes.append(tape)
        losses.append(value)
    total = losses[0]
    for loss in losses[1:]:
        total = build.sum(total, loss)
    build.keep_on_worker(total)
    gradients = [[] for _ in range(stages)]
    seeds = [build.op("expand", batches + stages) for _ in range(batches)]  # can be made at once, and need not be
    for batch in range(batches):
        gradient = seeds[batch]
        for stage in reversed(range(stages)):
            context, argument, _ = tapes[batch][stage]
            gradient = build.function_vjp("f", context, gradient, argument)
            gradients[stage].append(build.op_vjp("g", [gradient], gradient))
    for parts in gradients:
        while len(parts) > 1:
            parts[:] = [
                build.sum(*parts[i : i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)
            ]
        build.keep_on_worker(parts[0])
    return build.graph()


def test_one_branch_is_ended_before_the_next_is_begun(builder):
    graph = training(builder(externals=8 + 3 + 1, size=4000), 8)
    order = ordered(graph)
    running, most = 0, 0
    for index in order:
        node = graph.nodes[index]
        if node.role == "function":
            running += -1 if node.depth else 1
            most = max(most, running)
    assert most == 3
    recorded = peak(graph, range(len(graph.nodes)))
    assert peak(graph, order) < 0.5 * recorded


def test_what_is_needed_grows_slowly_with_the_number_of_branches(builder):
    needed = [
        peak(graph, ordered(graph))
        for graph in (training(builder(externals=batches + 3 + 1, size=4000), batches) for batches in (4, 16))
    ]
    assert needed[1] < 1.8 * needed[0]


def test_a_result_that_can_be_made_at_once_is_made_when_it_is_demanded(builder):
    build = builder(externals=2)
    early = build.op("expand", 1)
    value = 0
    for _ in range(3):
        value = build.op("sin", value)
    build.op("add", value, early)
    assert ordered(build.graph()) == [1, 2, 3, 0, 4]


@pytest.mark.slow
@given(data=st.data())
def test_it_is_a_topological_order_of_all_nodes(graphs, data):
    graph = data.draw(graphs())
    order = ordered(graph)
    assert sorted(order) == list(range(len(graph.nodes)))
    place = {index: position for position, index in enumerate(order)}
    for index, before in enumerate(node_edges(PricedGraph(graph, COSTS)).before):
        assert all(place[one] < place[index] for one in before)
    if graph.open_ended:
        assert order[-1] == len(graph.nodes) - 1
