"""The graph of one submission: nodes over numbered values, their specs, kept values, demands and cost hints, its hash.

The client records it, the planner plans it, `codec.graphs` writes it. Nodes hold names, numbers and value ids only: no
arrays, no closures, no pickles. Everything here is hashed (`structural_hash`). What must not make a new plan (leaf
values, Python numbers used as operands, slice bounds, captured arrays) is an *external*, supplied when the graph is run
(H9)."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

from .nodes import Node
from .specs import Spec

DEVICE: Final = "device "
"""The prefix of a resource name that is a device; see `Demand`."""

KEEP_ON_WORKER = 0
"""A kept value stays where it was made and is fetched when read (H14); a small one is inlined in the record."""
KEEP_IN_STORE = 1
"""A kept value is returned to the object store: a later vjp reads it (saved tensors, contexts)."""
KEEP_FOR_RUNS = 2
"""A kept value stays where it was made and is never inlined: later runs read it, the client hardly ever (parameters and
the state of optimisers in a compiled step)."""


class Demand(NamedTuple):
    """The resources that a node requests of the worker that runs it."""

    node: int
    name: str
    """The name of the node's code in errors."""
    needs: tuple[tuple[str, float], ...]
    """(resource, amount), sorted. A worker runs one node at a time, so amounts of different nodes do not add. A
    resource that begins with `DEVICE` is a device or kind of device: "device cuda:0"."""


class CostHint(NamedTuple):
    """What is known at the client of the time of one node of a user Function, beside its specs."""

    node: int
    seconds: float
    """The forward's seconds by `Function.cost`; 0.0 if the Function has none."""
    values: str
    """The non-tensor arguments of the call where times differ between them; else ""."""


class Graph(NamedTuple):
    """One submission. `keep` lists (value id, KEEP_*) for values that outlive the run.

    With `open_ended` the last node is a user Function without an observed signature: the run shows how many outputs it
    has (H3). All of them are kept, under the ids that follow its context.
    """

    specs: tuple[Spec, ...]
    externals: tuple[int, ...]
    """Spec index of each external; kind "const" for Python objects."""
    nodes: tuple[Node, ...]
    keep: tuple[tuple[int, int], ...]
    open_ended: bool = False
    demands: tuple[Demand, ...] = ()
    """Ascending by node; most graphs have none, and are encoded without this field."""
    hints: tuple[CostHint, ...] = ()
    """Ascending by node; most graphs have none, and are encoded without this field."""
    moved: tuple[tuple[int, int], ...] = ()
    """Of a graph to which a plan has added nodes, (node, node of the submitted graph) for nodes that run a second time
    or have another number there. Not encoded: it stays with the plan."""

    @property
    def values(self) -> int:
        """The number of value ids (an open-ended node counts with its context only)."""
        return len(self.externals) + sum(len(node.outputs) for node in self.nodes)


def structural_hash(encoded: bytes) -> bytes:
    """Return the 16-byte name of an encoded graph: equal for two training steps whatever their leaf values (H9)."""
    return blake2b(encoded, digest_size=16).digest()


def first_outputs(graph: Graph) -> list[int]:
    """Return, per node, the value id of its first output."""
    ids: list[int] = []
    next_id = len(graph.externals)
    for node in graph.nodes:
        ids.append(next_id)
        next_id += len(node.outputs)
    return ids


def makers(graph: Graph) -> list[int]:
    """Return, per value, the node that makes it; -1 for external inputs."""
    maker = [-1] * len(graph.externals)
    for index, node in enumerate(graph.nodes):
        maker.extend([index] * len(node.outputs))
    return maker
