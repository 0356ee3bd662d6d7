"""A graph: how its values are numbered."""

from __future__ import annotations

from raygrad.proto.ir.graph import first_outputs

from ..all_kinds import GRAPH


def test_values_are_numbered_externals_first() -> None:
    small = GRAPH._replace(nodes=GRAPH.nodes[:4])
    assert small.values == 3 + 1 + 1 + 2 + 4
    assert first_outputs(small) == [3, 4, 5, 7]
