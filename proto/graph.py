"""The graph IR: what one submission asks to be computed, as frozen data.

Rules of this file:
- nodes hold names, numbers and value ids only: no arrays, no closures, no pickles;
- everything here is hashed (`structural_hash`); what must not make a new plan (leaf values, Python numbers used as
  operands, slice bounds, captured arrays) enters as an *external* and is supplied when the graph is run (H9);
- value ids number the externals first (0 .. E-1), then the outputs of node 0, of node 1, ...; nodes are in a
  topological order, so a node reads only smaller ids. `UNDEFINED` (-1) stands for a gradient that never arrives.

Roles of a node, and what its `inputs`, `outputs` and `params` mean:

``op`` (a built-in op; `fn` is its name)
    transforms ():       inputs: operands in declared order (tensors or constants, -1 when absent);
                         params: static parameters, passed after the operands; outputs: the op's outputs.
    transforms (vjp,):   inputs: the residuals that the op declares, in declared order, then one cotangent per output;
                         params: (op params, per operand 1 if its gradient is wanted, per operand its spec index or -1,
                         per output its spec index); outputs: one gradient per wanted operand.
``function`` (a user Function; `fn` is "@" + fingerprint)
    transforms ():       inputs: arguments in order (tensors or constants), then captured tensors and arrays;
                         params: (number of arguments, per argument 1 if it requires grad / 0 if not / -1 if no tensor,
                         1 if recorded for backward, what an earlier run showed or None);
                         outputs: the context (spec kind "context"), then forward's outputs.
    transforms (vjp,)*d: inputs: the context, then the inputs of level d:
                             I1 = cotangents (one per output), arguments, outputs;  I(k+1) = cotangents of O(k), I(k)
                         where O1 = one gradient per argument and O(k+1) = one gradient per element of I(k);
                         absent ones are -1 (no tensor, a residual that was not saved, an undefined cotangent);
                         then captured tensors and arrays;
                         params: (length of I(d), number of arguments, number of outputs,
                         wanted positions of O(d), positions of I(d) that require grad, 1 if the result is itself
                         to be differentiated);
                         outputs: one gradient per wanted position.
``hook`` (user code by fingerprint)
    params: (kind, a, b): "tensor" (1, 0), "pre" (cotangents, 0), "post" (gradients of inputs, cotangents);
    inputs: a + b gradients, then captured tensors and arrays; outputs: the a gradients, replaced or not.
``sum`` (an addition that skips undefined addends; H5, H19)
    inputs: two addends; outputs: their sum.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import msgpack

IR_VERSION = 1
UNDEFINED = -1

ROLE_OP = "op"
ROLE_FUNCTION = "function"
ROLE_HOOK = "hook"
ROLE_SUM = "sum"
VJP = "vjp"

KIND_ARRAY = "array"
KIND_CONTEXT = "context"
KIND_CONST = "const"
KIND_OBJECT = "object"
KIND_UNKNOWN = "unknown"

KEEP_ON_WORKER = 0
"""A kept value stays where it was made and is fetched when read (H14)."""
KEEP_IN_STORE = 1
"""A kept value is returned to the object store: a later vjp reads it (saved tensors, contexts)."""


class Spec(NamedTuple):
    """What is known of a value before it exists.

    `layout` is None where only the kernel knows it; else (axes from outermost to innermost, expanded axes): H1.
    """

    kind: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = "cpu"
    layout: tuple[tuple[int, ...], tuple[int, ...]] | None = None


class Node(NamedTuple):
    """One unit of work; see the head of this file for the meaning of the fields by role."""

    role: str
    fn: str
    transforms: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    """Spec index of each output; their value ids follow those of the node before."""
    params: tuple[object, ...]
    pin: int = -1
    """Index of the worker that the user asked for, or -1."""
    near: int = -1
    """A value id: the node must run on the worker that makes (or holds) that value; -1 for none."""


class Graph(NamedTuple):
    """One submission. `keep` lists (value id, KEEP_*) for values that outlive the run.

    With `open_ended` the last node is a user Function that has not been seen before: how many outputs it has is
    learned from the run (H3); all of them are kept, under the ids that follow its context.
    """

    specs: tuple[Spec, ...]
    externals: tuple[int, ...]
    """Spec index of each external; kind "const" for Python objects."""
    nodes: tuple[Node, ...]
    keep: tuple[tuple[int, int], ...]
    open_ended: bool = False

    def encode(self) -> bytes:
        """Return the canonical bytes of the graph: equal graphs give equal bytes."""
        return msgpack.packb((IR_VERSION, *self), use_bin_type=True)

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
