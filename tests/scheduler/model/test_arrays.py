from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.arrays import as_tuples, graph_arrays, number_pairs, number_rows, offsets
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.priced_graph import PricedGraph


@pytest.mark.slow
@given(data=st.data())
def test_arrays_say_what_the_lists_say(graphs, data):
    graph = data.draw(graphs(pins=2, least=1))
    priced = PricedGraph(graph, Costs())
    arrays = graph_arrays(priced)
    for name in ("maker", "spec", "size", "transfer", "seconds"):
        assert getattr(arrays, name).tolist() == getattr(priced, name)
    assert arrays.first.tolist() == [*priced.first, len(priced.spec)]
    assert len(arrays) == len(graph.nodes)
    for index, node in enumerate(graph.nodes):
        first, last = arrays.reads[index], arrays.reads[index + 1]
        assert tuple(arrays.read[first:last].tolist()) == node.inputs
        assert (arrays.reader[first:last] == index).all()


def test_what_is_alike_is_priced_once(builder):
    build = builder(externals=2)
    for _ in range(50):
        build.op("sin", 0)
        build.op("add", 0, 1)
    asked = []

    class Counting(Costs):
        def node_seconds(self, node, inputs, outputs):
            asked.append(node.fn)
            return super().node_seconds(node, inputs, outputs)

    assert len(graph_arrays(PricedGraph(build.graph(), Counting()))) == 100
    assert sorted(asked) == ["add", "sin"]


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 2), max_size=4)), max_size=12))
def test_equal_rows_and_only_they_have_equal_numbers(found):
    lengths = np.array([len(entries) for _, entries in found], np.int64)
    begin = offsets(lengths)
    flat = np.array([entry for _, entries in found for entry in entries], np.int64)
    start = np.array([one for one, _ in found], np.int64)
    numbers = number_rows(start, lengths, lambda some, place: flat[begin[some] + place], 3).tolist()
    assert len({*zip(numbers, map(repr, found), strict=True)}) == len({*numbers}) == len({*map(repr, found)})
    assert as_tuples(flat.tolist(), begin.tolist()) == [tuple(entries) for _, entries in found]


def test_pairs_are_numbered_by_a_table_or_by_sorting():
    one = np.array([5, 0, 5, 3])
    for others in (7, 10**12):
        numbers = number_pairs(one, np.array([1, 2, 1, 1]), others).tolist()
        assert numbers[0] == numbers[2]
        assert sorted({*numbers}) == [0, 1, 2]
