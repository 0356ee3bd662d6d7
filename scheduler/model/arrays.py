"""A graph with predicted seconds and bytes as flat NumPy arrays, for large graphs; and functions that number rows.

`graph_arrays` takes one pass over the nodes, all else is NumPy. The content is that of `priced_graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from raygrad.proto.ir.graph import Graph

from .costs import Costs
from .dag import Floats, Indices
from .priced_graph import PricedGraph

Flags: TypeAlias = NDArray[np.bool_]

TABLE_ENTRIES_PER_PAIR = 8
"""Pairs are numbered by a table up to this many possible ones for each that there is, by sorting beyond."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class GraphArrays:
    """A graph with predicted bytes of its values and seconds of its nodes, as arrays. See `graph_arrays`."""

    graph: Graph
    read: Indices
    """All inputs of all nodes, in order: value ids, -1 for one that is undefined."""
    reader: Indices
    """Per entry of `read`, the node that reads it."""
    reads: Indices
    """(nodes + 1,) `read[reads[i]:reads[i + 1]]` are the inputs of node i."""
    first: Indices
    """(nodes + 1,) Per node, the value id of its first output; then the number of values."""
    maker: Indices
    """Per value, the node that makes it; -1 for an external."""
    spec: Indices
    """Per value, its spec index."""
    size: Indices
    """Per value, its predicted bytes."""
    transfer: Floats
    """Per value, the predicted seconds to bring it to another worker."""
    seconds: Floats
    """Per node, its predicted seconds."""
    role: Indices
    """Per node, the place of (role, depth) in `roles`."""
    roles: list[tuple[str, int]]

    def __len__(self) -> int:
        return len(self.seconds)

    def priced(self) -> PricedGraph:
        """Return the same as lists."""
        return PricedGraph(
            graph=self.graph,
            first=self.first[:-1].tolist(),
            maker=self.maker.tolist(),
            spec=self.spec.tolist(),
            size=self.size.tolist(),
            transfer=self.transfer.tolist(),
            seconds=self.seconds.tolist(),
        )


def graph_arrays(graph: Graph, costs: Costs) -> GraphArrays:
    """Return the graph as arrays, with predicted seconds and bytes; equal nodes are computed once."""
    nodes = graph.nodes
    count = len(nodes)
    inputs: list[tuple[int, ...]] = list(map(attrgetter("inputs"), nodes))
    outputs: list[tuple[int, ...]] = list(map(attrgetter("outputs"), nodes))
    arity = np.fromiter(map(len, inputs), np.int64, count)
    made = np.fromiter(map(len, outputs), np.int64, count)
    reads, first = offsets(arity), offsets(made) + len(graph.externals)
    read = np.fromiter(chain.from_iterable(inputs), np.int64, int(reads[-1]))
    spec = np.empty(int(first[-1]), np.int64)
    spec[: len(graph.externals)] = graph.externals
    spec[len(graph.externals) :] = np.fromiter(chain.from_iterable(outputs), np.int64)
    maker = np.full(len(spec), -1)
    maker[len(graph.externals) :] = np.repeat(np.arange(count), made)
    kind, _ = number_keys(map(attrgetter("role", "fn", "depth", "outputs"), nodes), count)
    role, roles = number_keys(map(attrgetter("role", "depth"), nodes), count)
    sizes = [costs.value_bytes(one) for one in graph.specs]
    return GraphArrays(
        graph=graph,
        read=read,
        reader=np.repeat(np.arange(count), arity),
        reads=reads,
        first=first,
        maker=maker,
        spec=spec,
        size=np.array(sizes, np.int64)[spec],
        transfer=np.array([costs.transfer_seconds(size) for size in sizes])[spec],
        seconds=_node_seconds(graph, costs, kind, read, reads, np.append(spec, -1)),
        role=role,
        roles=roles,
    )


def _node_seconds(graph: Graph, costs: Costs, kind: Indices, read: Indices, reads: Indices, spec: Indices) -> Floats:
    """Return the time of each node; asked once for all nodes of one kind and equal specs. The last entry of `spec` is
    what an undefined input counts as."""
    specs = len(graph.specs) + 1
    arity = np.diff(reads)
    alike = number_rows(kind, arity, lambda some, place: spec[read[reads[some] + place]] + 1, specs)
    example = np.empty(int(alike.max(initial=-1)) + 1, np.int64)
    example[alike] = np.arange(len(alike))
    seconds = np.zeros(len(example))
    known: list[int] = spec.tolist()
    for number, index in enumerate(example.tolist()):
        node = graph.nodes[index]
        seconds[number] = costs.node_seconds(
            node,
            [graph.specs[known[value]] for value in node.inputs if value >= 0],
            [graph.specs[one] for one in node.outputs],
        )
    return seconds[alike]


# ---- numbering -----------------------------------------------------------------------------------------------------


class _Numbers(dict[Any, int]):
    """A dict that numbers its keys in the order of their first lookup."""

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number


def number_keys(keys: Iterable[Any], count: int) -> tuple[Indices, list[Any]]:
    """Return the number of each of `count` keys, equal ones having the same, and the keys by number."""
    numbers = _Numbers()
    found = np.fromiter(map(numbers.__getitem__, keys), np.int64, count)
    return found, list(numbers)


def number_pairs(one: Indices, other: Indices, others: int) -> Indices:
    """Return a number for each pair, equal ones having the same, from 0 without gaps; `other` is below `others`."""
    if not len(one):
        return one
    key = one * others + other
    most = int(key.max()) + 1
    if most > TABLE_ENTRIES_PER_PAIR * len(key) + 1024:
        return np.unique(key, return_inverse=True)[1]
    seen = np.zeros(most, np.bool_)
    seen[key] = True
    return (np.cumsum(seen) - 1)[key]


def number_rows(start: Indices, length: Indices, entry: Callable[[Indices, int], Indices], entries: int) -> Indices:
    """Return a number for each row, equal rows having the same: a row is (start[i], its `length[i]` entries), where
    `entry(some, place)` gives those of the rows `some` at one place, all below `entries`."""
    number, base = start.copy(), int(start.max(initial=-1)) + 1
    some = np.flatnonzero(length > 0)
    place = 0
    while len(some):
        found = number_pairs(number[some], entry(some, place), entries)
        number[some] = base + found
        base += int(found.max()) + 1
        place += 1
        some = some[length[some] > place]
    return number_pairs(number, np.zeros_like(number), 1)


def offsets(lengths: Indices) -> Indices:
    """Return where each of consecutive runs of these lengths begins, and where the last one ends."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def as_tuples(flat: Sequence[Any], ends: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the runs of a flat sequence, each as a tuple."""
    return [tuple(flat[begin:end]) if begin < end else () for begin, end in pairwise(ends)]
