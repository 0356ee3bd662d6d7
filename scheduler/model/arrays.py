"""A priced graph as flat NumPy arrays, for large graphs; and functions that number rows.

`graph_arrays` converts what `PricedGraph` has as lists; all that works on arrays begins with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from raygrad.proto.ir.graph import Graph

from .dag import Dag, Floats, Indices, dag_of_merged_edges
from .priced_graph import PricedGraph

Flags: TypeAlias = NDArray[np.bool_]

TABLE_ENTRIES_PER_PAIR = 8
"""Pairs are numbered by a table up to this many possible ones for each that there is, by sorting beyond."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class GraphArrays:
    """A priced graph as arrays. See `graph_arrays`."""

    priced: PricedGraph
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
    class_of: Indices
    """Per node, its class (`PricedGraph.classes`)."""

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def graph(self) -> Graph:
        """The graph itself."""
        return self.priced.graph

    def dag(self) -> Dag:
        """Return the graph's nodes as a task graph."""
        return dag_of_reads(self.seconds, self.read, self.reader, self.maker, self.transfer)


def graph_arrays(priced: PricedGraph) -> GraphArrays:
    """Return the graph as arrays."""
    graph = priced.graph
    count, externals = len(graph.nodes), len(graph.externals)
    read, arity = graph_reads(graph)
    made = np.fromiter(map(len, map(attrgetter("outputs"), graph.nodes)), np.int64, count)
    spec, class_of = np.array(priced.spec, np.int64), np.array(priced.classes.number, np.int64)
    return GraphArrays(
        priced=priced,
        read=read,
        reader=np.arange(count).repeat(arity),
        reads=offsets(arity),
        first=offsets(made) + externals,
        maker=np.append(np.full(externals, -1), np.repeat(np.arange(count), made)),
        spec=spec,
        size=np.array(priced.spec_size, np.int64)[spec],
        transfer=np.array(priced.spec_transfer)[spec],
        seconds=np.array(priced.class_seconds)[class_of],
        class_of=class_of,
    )


def graph_reads(graph: Graph) -> tuple[Indices, Indices]:
    """Return all inputs of all nodes, in order, and the number of inputs of each node."""
    inputs: list[tuple[int, ...]] = list(map(attrgetter("inputs"), graph.nodes))
    arity = np.fromiter(map(len, inputs), np.int64, len(inputs))
    return np.fromiter(chain.from_iterable(inputs), np.int64, int(arity.sum())), arity


def dag_of_reads(seconds: Floats, read: Indices, reader: Indices, maker: Indices, transfer: Floats) -> Dag:
    """Return the task graph in which each node depends on the makers of what it reads. `maker` and `transfer` are by
    value; a value without a maker, and an undefined input, is no edge."""
    present = read >= 0
    value, reader = read[present], reader[present]
    source = maker[value]
    made = source >= 0
    return dag_of_merged_edges(seconds, source[made], reader[made], transfer[value[made]])


# ---- numbering -----------------------------------------------------------------------------------------------------


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
