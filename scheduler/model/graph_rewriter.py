"""A builder of graphs with added nodes: spills, loads, and repeated nodes that rematerialise values.

`spill_or_rematerialize` decides which values are spilled or rematerialised, and when; this file adds the nodes and says
which values can be spilled and which nodes can run again. The nodes of the original graph keep their numbers, so that
in a rewritten graph numbers no longer tell the order of execution. The last node of an open-ended graph stays last,
because the ids of its outputs follow its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.nodes import UNPLACED, FunctionCall, Load, Node, Spill, placed, reruns
from raygrad.proto.ir.specs import LIVE, ArraySpec, ContextSpec

from .costs import Costs
from .priced_graph import PricedGraph

_SPILL, _LOAD = Spill(*UNPLACED), Load(*UNPLACED)


class RewrittenGraph(NamedTuple):
    """A graph with added nodes, placed and ordered."""

    priced: PricedGraph
    node_worker: tuple[int, ...]
    sequences: list[list[int]]
    """Per worker, its nodes in order."""


class GraphRewriter:
    """Builds a graph with added nodes from a placed graph."""

    def __init__(self, priced: PricedGraph, node_worker: Sequence[int], costs: Costs) -> None:
        self.priced = priced
        self.costs = costs
        graph = priced.graph
        self.specs = [*graph.specs, ArraySpec((0,), "uint8")]
        self.handle_spec = len(graph.specs)
        """The spec index of handles: the values that stand for spilled ones."""
        self.nodes = list(graph.nodes)
        self.values = len(priced.spec)
        self.node_worker = list(node_worker)
        self.repeated: dict[int, int] = {}
        """Of added nodes that run a node of the graph again, which one."""
        self._memory: dict[tuple[type, int], float] = {}

    def mark(self) -> tuple[int, int]:
        """Return a mark for `roll_back`."""
        return len(self.nodes), self.values

    def roll_back(self, mark: tuple[int, int]) -> None:
        """Drop the nodes added since the mark. The inputs of original nodes stay changed until the next search."""
        count, self.values = mark
        del self.nodes[count:], self.node_worker[count:]
        self.repeated = {added: node for added, node in self.repeated.items() if added < count}

    def spill(self, worker: int, value: int) -> tuple[int, int]:
        """Add a node that can_spill a value; return its number and the id of the handle."""
        return self.add(worker, placed(_SPILL, (value,), (self.handle_spec,)))

    def load(self, worker: int, handle: int, spec: int) -> tuple[int, int]:
        """Add a node that loads the spilled value of a handle; return its number and the id of the loaded value."""
        return self.add(worker, placed(_LOAD, (handle,), (spec,)))

    def add(self, worker: int, node: Node, repeats: int = -1) -> tuple[int, int]:
        """Add a node, which `repeats` one of the graph if that is not -1; return its number and the id of its first
        output."""
        if repeats >= 0:
            self.repeated[len(self.nodes)] = repeats
        self.nodes.append(node)
        self.node_worker.append(worker)
        first = self.values
        self.values += len(node.outputs)
        return len(self.nodes) - 1, first

    def spill_seconds(self, spec: int) -> float:
        """Return the predicted seconds to spill a value of a spec."""
        return self._seconds(_SPILL, spec)

    def load_seconds(self, spec: int) -> float:
        """Return the predicted seconds to load a value of a spec."""
        return self._seconds(_LOAD, spec)

    def _seconds(self, node: Spill | Load, spec: int) -> float:
        known = self._memory.get((type(node), spec))
        if known is None:
            value, handle = self.specs[spec], self.specs[self.handle_spec]
            read, made = ((value,), (handle,)) if isinstance(node, Spill) else ((handle,), (value,))
            known = self._memory[type(node), spec] = self.costs.node_seconds(node, read, made)
        return known

    def can_repeat(self, index: int) -> bool:
        """Return whether a node may run a second time."""
        node = self.priced.graph.nodes[index]
        return reruns(node) and not (isinstance(node, FunctionCall) and node.expected is None)

    def can_spill(self, value: int) -> bool:
        """Return whether a value can be written to disk; values on a device go there through host memory."""
        spec = self.priced.graph.specs[self.priced.spec[value]]
        return isinstance(spec, ArraySpec) or (isinstance(spec, ContextSpec) and spec.stays != LIVE)

    def rewritten(self, sequences: list[list[int]]) -> RewrittenGraph:
        """Return the graph with the added nodes; `sequences` has the nodes of each worker in order."""
        before = self.priced.graph
        nodes, node_worker, keep = self.nodes, self.node_worker, before.keep
        demands, hints, moved = before.demands, before.hints, tuple(self.repeated.items())
        if before.open_ended and len(nodes) > len(before.nodes):
            old, number, value = len(before.nodes) - 1, len(nodes) - 1, self.priced.first[-1]
            nodes = [*nodes[:old], *nodes[old + 1 :], nodes[old]]
            node_worker = [*node_worker[:old], *node_worker[old + 1 :], node_worker[old]]
            values = _renumber_as_last(value, self.values - 1)
            nodes = [node._replace(inputs=tuple(map(values, node.inputs))) for node in nodes]
            keep = tuple([(values(one), where) for one, where in keep])
            demands = tuple([one._replace(node=number if one.node == old else one.node) for one in demands])
            hints = tuple([one._replace(node=number if one.node == old else one.node) for one in hints])
            places = _renumber_as_last(old, number)
            moved = (*[(places(added), node) for added, node in moved], (number, old))
            sequences = [[places(index) for index in one] for one in sequences]
        graph = Graph(tuple(self.specs), before.externals, tuple(nodes), keep, before.open_ended, demands, hints, moved)
        return RewrittenGraph(PricedGraph(graph, self.costs), tuple(node_worker), sequences)


def _renumber_as_last(number: int, last: int) -> Callable[[int], int]:
    """Return the renumbering by which one number becomes the last."""
    return lambda one: one if one < number else last if one == number else one - 1
