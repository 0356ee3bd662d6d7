from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.priced_graph import PricedGraph, node_edges


def test_every_value_has_a_maker_a_spec_and_a_price(builder):
    build = builder(externals=2)
    context, y = build.function("f", 0, 1)
    z = build.op("sin", y)
    priced = PricedGraph(build.graph(), Costs())
    assert priced.maker == [-1, -1, 0, 0, 1]
    assert priced.first == [context, z]
    assert priced.spec == [1, 1, 0, 1, 1]
    assert priced.size == [32, 32, Costs().context_bytes, 32, 32]
    assert priced.transfer[0] == Costs().transfer_seconds(32)
    assert priced.seconds[0] > priced.seconds[1] > 0


def test_equal_nodes_have_equal_prices(builder):
    build = builder()
    for _ in range(3):
        build.op("sin", 0)
    assert len(set(PricedGraph(build.graph(), Costs()).seconds)) == 1


def test_an_edge_is_one_edge_however_many_values_it_carries(builder):
    build = builder()
    context, y = build.function("f", 0)
    build.function_vjp("f", context, y, 0, y)
    links = node_edges(PricedGraph(build.graph(), Costs()))
    assert links.before == [(), (0,)]
    assert links.after == [[1], []]
