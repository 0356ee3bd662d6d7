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
    transforms ():       inputs: arguments in order (tensors or constants), keyword-only arguments (constants), then
                         captured tensors and arrays;
                         params: (number of arguments, per argument 1 if it requires grad / 0 if not / -1 if no tensor,
                         the sum of RECORDED, AGAIN and PURE where they hold, what an earlier run showed or None, names
                         of the keyword-only arguments, the casting state);
                         outputs: the context (spec kind "context"), then forward's outputs.
    transforms (vjp,)*d: inputs: the context, then the inputs of level d:
                             I1 = cotangents (one per output), arguments, outputs;  I(k+1) = cotangents of O(k), I(k)
                         where O1 = one gradient per argument and O(k+1) = one gradient per element of I(k);
                         absent ones are -1 (no tensor, a residual that was not saved, an undefined cotangent);
                         then values of attributes that the client set on the context; then captured tensors and arrays;
                         where the result is differentiated, captured tensors that require grad count as further
                         arguments, which get no gradient at level 1;
                         params: (length of I(d), number of arguments, number of outputs,
                         wanted positions of O(d), positions of I(d) that require grad, 1 if the result is itself
                         to be differentiated, why what it saved must not be read any more (reading it raises this),
                         (undefined outputs, outputs that require grad) that earlier runs showed and the client
                         went by, or None: a differentiated one has to agree, another reports those that were not
                         undefined before, the sum of KEPT and SPARED where they hold,
                         per attribute that the client set (name, 1 if its value is a tensor),
                         1 if it is to be reported what backward does with the context, the casting state);
                         outputs: the context as backward left it (of level 1 only), then one gradient per wanted
                         position.
``hook`` (user code by fingerprint)
    params: (kind, a, b, the casting state): "tensor" (1, 0), "pre" (cotangents, 0), "post" (gradients of inputs,
    cotangents);
    inputs: a + b gradients, then captured tensors and arrays; outputs: the a gradients, replaced or not.
``sum`` (an addition that skips undefined addends; H5, H19)
    inputs: two addends; outputs: their sum. With fn "defined", one input, which must prove defined: the run fails if
    not, since somebody went by what earlier runs showed. With fn "no nan", one input, in which no element may be NaN;
    params: (what is said of it otherwise,). With fn "after", the first input, once the others are there. With fn
    "digest", a fingerprint of all inputs (spec kind "object"). With fn "agree", the first input, if the second is the
    fingerprint of all others: a context whose forward was run again; params: (the Function's name,).
``emit`` (what the client's own code sent to the session's handlers; H20)
    inputs: a constant: the name and the object, pickled without the tensors in it; then those tensors; no outputs.
``memory`` (what a plan adds for a worker with a limit; never recorded)
    fn "spill": inputs: a value; outputs: what stands for it while it is on disk (an array without bytes).
    fn "load": inputs: that; outputs: the value.

User code that meets leaves of the client's whose `.grad` it might read or change (H16) has two more params, before the
casting state: per leaf, the places where it meets it, as (what, number), see
`raygrad.workers.interpreter.leaf_gradients`; and what becomes of changes. Its last inputs are the gradients of these
leaves, -1 for none, and if changes go home (of a vjp of level 1, and of a hook), its last outputs are what the
gradients then are.

The casting state of user code, the last of its params: () if it was recorded outside of all regions of `autocast`, else
(1 if operands are cast, name of the dtype, 1 if casts of leaves are kept); inside of a block of a device this, or
(0, "", 0), and the name of the device on which factories make tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from math import prod
from typing import Any, Final, NamedTuple

import msgpack
import numpy as np

from raygrad.errors import ProtocolError

from .checks import all_ints, fields, flag, integer, integers, one_of, sequence, shown, text, texts, unpack
from .layout import check_layout

IR_VERSION = 1
DEVICE: Final = "device "
"""Begins the name of a demand that is a device; see `Demand`."""
UNDEFINED = -1

ROLE_OP = "op"
ROLE_FUNCTION = "function"
ROLE_HOOK = "hook"
ROLE_SUM = "sum"
ROLE_EMIT = "emit"
ROLE_MEMORY = "memory"
VJP = "vjp"

RECORDED, AGAIN, PURE = 1, 2, 4
"""What the forward of a user's Function is told, as a sum: it is recorded for backward; it runs a second time for that,
unnoticed; it may run a second time, since nothing but what it returns shows that it ran (H2)."""

KEPT, SPARED = 1, 2
"""What the vjp of a user's Function is told, as a sum: what was saved is kept; without any cotangent nothing is run."""

KIND_ARRAY = "array"
KIND_CONTEXT = "context"
KIND_CONST = "const"
KIND_OBJECT = "object"
KIND_UNKNOWN = "unknown"

KEEP_ON_WORKER = 0
"""A kept value stays where it was made and is fetched when read (H14); a small one comes with the record."""
KEEP_IN_STORE = 1
"""A kept value is returned to the object store: a later vjp reads it (saved tensors, contexts)."""
KEEP_FOR_RUNS = 2
"""A kept value stays where it was made, and is fetched when read, however small: later runs read it, the client hardly
ever (parameters and the state of optimisers in a compiled step)."""

ROLES: Final = frozenset({ROLE_OP, ROLE_FUNCTION, ROLE_HOOK, ROLE_SUM, ROLE_EMIT, ROLE_MEMORY})
KINDS: Final = frozenset({KIND_ARRAY, KIND_CONTEXT, KIND_CONST, KIND_OBJECT, KIND_UNKNOWN})

MAX_NODES: Final = 1 << 24
"""Of one graph or program: sixteen times the largest graph that planning has a budget for (10^6 nodes)."""

MAX_VALUES: Final = 1 << 26
"""Value ids of one graph, slots of one program: a worker makes a list of as many places before it runs anything."""


class Spec(NamedTuple):
    """What is known of a value before it exists.

    `layout` is None where only the kernel knows it; else (axes from outermost to innermost, expanded axes): H1. Of a
    context `shape` is (), or (bytes that it alone holds or -1, STAYS or LIVE or 0) and per device that `device` names,
    apart by spaces, how many of these bytes are there; of a constant (), or (its bytes,).
    """

    kind: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = "cpu"
    layout: tuple[tuple[int, ...], tuple[int, ...]] | None = None


STAYS, LIVE = 1, 2
"""Of a context: it stays on its worker; it stays in its worker's process as it is, and cannot be taken apart (H10)."""


def bytes_of(spec: Spec) -> int:
    """Return the bytes of an array, or those that a context or a constant is said to hold; -1 where nobody knows."""
    if spec.kind == KIND_ARRAY:
        return prod(spec.shape) * _itemsize(spec.dtype)
    return spec.shape[0] if spec.shape and spec.kind in (KIND_CONTEXT, KIND_CONST) else -1


@lru_cache(maxsize=64)
def _itemsize(dtype: str) -> int:
    """Return the bytes of one element; 8 for a dtype that NumPy does not know by name (bfloat16 and the like)."""
    try:
        return np.dtype(dtype).itemsize
    except TypeError:
        return 8


def stored(spec: Spec) -> bool:
    """Tell whether a value is a context that goes to the object store where it outlives its segment."""
    return spec.kind == KIND_CONTEXT and spec.shape[1:2] in ((), (0,))


def context_spec(size: int, stays: int, on: Sequence[tuple[str, int]] = ()) -> Spec:
    """Return the spec of a context that holds so many bytes, or -1, of which some are `on` devices."""
    if not on:
        return Spec(KIND_CONTEXT, (size, stays))
    return Spec(KIND_CONTEXT, (size, stays, *[held for _, held in on]), device=" ".join([device for device, _ in on]))


def on_devices(spec: Spec) -> tuple[tuple[str, int], ...]:
    """Return per device how many bytes a context holds there."""
    held = spec.shape[2:]
    return tuple(zip(spec.device.split(), held, strict=True)) if held else ()


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


def is_spill(node: Node) -> bool:
    """Tell whether a node writes a value to disk."""
    return node.role == ROLE_MEMORY and node.fn == "spill"


class Demand(NamedTuple):
    """What a node asks of the worker that runs it."""

    node: int
    name: str
    """How errors name the node's code."""
    needs: tuple[tuple[str, float], ...]
    """(resource, amount), sorted; an amount of a worker's, which runs one node at a time. A resource that begins with
    `DEVICE` is a device or kind of device: "device cuda:0"."""


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
    demands: tuple[Demand, ...] = ()
    """Ascending by node; most graphs have none, and are encoded without this field."""

    def encode(self) -> bytes:
        """Return the canonical bytes of the graph: equal graphs give equal bytes."""
        return msgpack.packb((IR_VERSION, *(self if self.demands else self[:-1])), use_bin_type=True)

    @classmethod
    def decode(cls, encoded: Any) -> Graph:
        """Return the graph whose `encode` gave these bytes.

        Raises:
            ProtocolError: they are none of a graph: says which part is wrong, down to the node.
        """
        body = unpack(encoded, "graph")
        version = sequence(body, "graph")[:1]
        if version != (IR_VERSION,):
            raise ProtocolError(f"the graph is of version {shown(version)}; this side reads version {IR_VERSION}")
        demands = len(sequence(body, "graph")) > 6
        _, specs, externals, nodes, keep, open_ended = fields(body[:6] if demands else body, 6, "graph")
        specs = specs_of(specs)
        externals = integers(externals, "specs of the externals", 0, len(specs))
        nodes = nodes_of(nodes, len(specs))
        graph = cls(specs, externals, nodes, _pairs(keep), flag(open_ended, "open-ended flag"))
        if demands:
            graph = graph._replace(demands=_demands(fields(body, 7, "graph")[6], len(nodes)))
        _check_order(graph)
        return graph

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


# ---- checking what came over a wire --------------------------------------------------------------------------------


def spec_of(raw: Any) -> Spec:
    """Return a spec from its fields.

    Raises:
        ProtocolError: they are none of a spec.
    """
    kind, shape, dtype, device, layout = fields(raw, len(Spec._fields), "spec")
    shape = integers(shape, "shape of a spec", -1)
    kind, dtype = one_of(kind, KINDS, "kind of a spec"), text(dtype, "dtype of a spec")
    device = text(device, "device of a spec")
    if kind == KIND_CONTEXT and shape[2:] and len(device.split()) != len(shape) - 2:
        raise ProtocolError(f"a context holds bytes on {len(shape) - 2} devices, which are {shown(device)}")
    if layout is not None:
        order, expanded = fields(layout, 2, "layout of a spec")
        layout = (
            integers(order, "axis order of a spec", 0, len(shape)),
            integers(expanded, "expanded axes of a spec", 0),
        )
        check_layout(shape, *layout)
    return Spec(kind, shape, dtype, device, layout)


def specs_of(raw: Any) -> tuple[Spec, ...]:
    """Return the specs of a graph or program; see `spec_of`."""
    return tuple([spec_of(spec) for spec in sequence(raw, "specs")])


def nodes_of(raw: Any, specs: int) -> tuple[Node, ...]:
    """Return nodes from their fields; their outputs are among `specs` specs. What their inputs name is not checked.

    Raises:
        ProtocolError: they are none of nodes; names the first that is wrong.
    """
    entries = sequence(raw, "nodes")
    if len(entries) > MAX_NODES:
        raise ProtocolError(f"there are {len(entries)} nodes; at most {MAX_NODES} are allowed")
    try:
        nodes = tuple([Node._make(entry) for entry in entries])
        if _well_formed(nodes, entries, specs):
            return nodes
    except (TypeError, ValueError):  # told apart below
        pass
    return tuple([_node_of(entry, index, specs) for index, entry in enumerate(entries)])


def _well_formed(nodes: tuple[Node, ...], entries: tuple[Any, ...], specs: int) -> bool:
    """Tell whether every node is one: all fields of a kind at once, since graphs have thousands of nodes."""
    roles: set[Any] = set()
    names: set[type] = set()
    tuples: set[type] = set(map(type, entries))
    transforms: set[Any] = set()
    numbers: list[Any] = []
    outputs: list[Any] = []
    for role, fn, stack, inputs, made, params, pin, near in nodes:
        roles.add(role)
        names.add(type(fn))
        tuples.update((type(stack), type(inputs), type(made), type(params)))
        if stack:
            transforms.update(stack)
        numbers += inputs
        numbers += (pin, near)
        outputs += made
    return (
        tuples <= {tuple}
        and names <= {str}
        and roles <= ROLES
        and transforms <= {VJP}
        and all_ints(numbers, UNDEFINED, MAX_VALUES)
        and all_ints(outputs, 0, specs)
    )


def _node_of(raw: Any, index: int, specs: int) -> Node:
    where = f"of node {index}"
    role, fn, transforms, inputs, outputs, params, pin, near = fields(raw, len(Node._fields), f"node {index}")
    for transform in texts(transforms, f"transforms {where}"):
        one_of(transform, {VJP}, f"transform {where}")
    return Node(
        one_of(role, ROLES, f"role {where}"),
        text(fn, f"name {where}"),
        transforms,
        integers(inputs, f"inputs {where}", UNDEFINED, MAX_VALUES),
        integers(outputs, f"output specs {where}", 0, specs),
        sequence(params, f"params {where}"),
        integer(pin, f"pin {where}", -1, MAX_VALUES),
        integer(near, f"colocation {where}", UNDEFINED, MAX_VALUES),
    )


def _pairs(raw: Any) -> tuple[tuple[int, int], ...]:
    pairs = [fields(pair, 2, "kept value") for pair in sequence(raw, "kept values")]
    return tuple([(integer(i, "kept value", 0), integer(how, "KEEP_*", 0, KEEP_FOR_RUNS + 1)) for i, how in pairs])


def _demands(raw: Any, nodes: int) -> tuple[Demand, ...]:
    demands: list[Demand] = []
    for entry in sequence(raw, "demands"):
        node, name, needs = fields(entry, len(Demand._fields), "demand")
        index = integer(node, "node of a demand", demands[-1].node + 1 if demands else 0, nodes)
        pairs = [fields(pair, 2, f"demand of node {index}") for pair in sequence(needs, f"demands of node {index}")]
        for resource, amount in pairs:
            text(resource, f"resource of node {index}")
            if type(amount) is not float or not 0.0 <= amount < float("inf"):
                raise ProtocolError(f"the amount that node {index} asks for is {shown(amount)}")
        demands.append(Demand(index, text(name, f"name of what node {index} runs"), tuple(pairs)))
    if not demands:
        raise ProtocolError("a graph without demands has no field for them")
    return tuple(demands)


def _check_order(graph: Graph) -> None:
    """Check that each node reads only what stands before it, and that what is kept exists."""
    known = len(graph.externals)
    for index, node in enumerate(graph.nodes):
        if node.near >= known or (node.inputs and max(node.inputs) >= known):
            late = [i for i in (*node.inputs, node.near) if i >= known]
            raise ProtocolError(f"node {index} ({node.fn}) reads value {late[0]}, which does not exist before it")
        known += len(node.outputs)
    if known > MAX_VALUES:
        raise ProtocolError(f"the graph has {known} values; at most {MAX_VALUES} are allowed")
    if graph.open_ended and (not graph.nodes or graph.nodes[-1].role != ROLE_FUNCTION):
        raise ProtocolError("an open-ended graph ends with a user Function")
    for value, _ in graph.keep:
        if value >= known:
            raise ProtocolError(f"value {value} is to be kept and does not exist")
