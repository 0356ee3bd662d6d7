"""Double backward of Functions: a user's backward, run on a local tape under `create_graph`, packed into one node (H7).

Eager passes use it so that derivatives of derivatives are summed in the order in which a session sums them, where the
backward runs on a worker. A saved value that is neither input nor output raises if a derivative would flow into it,
since the terms through it would be lost (BW-18).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raygrad.errors import AutogradError

from ..core.modes import state
from ..core.recorder import Data, Recorder
from ..engine.engine import gradients
from ..graph import GradientEdge
from ..nodes.accumulator import AccumulateGrad
from ..nodes.node import FREED, NO_EDGE, Edge, Node, next_sequence
from ..nodes.once_differentiable import check_differentiable, delayed_error_outputs
from ..registry.vjp_rules import Meta
from ..saved.saved_slots import UNSHARED, VALUE
from ..tensor.tangent_levels import active_levels
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from .context import FunctionNode

Items = Sequence[Tensor | None]


class SavedIntermediates:
    """Saved values that are neither inputs nor outputs of forward, as leaves of a local tape."""

    def __init__(self, name: str, leaves: Sequence[tuple[int, Tensor]]) -> None:
        self.name = name
        self.leaves = [leaf for _, leaf in leaves]
        self._slots = [slot for slot, _ in leaves]

    def check(self, grads: Items) -> None:
        """Raise if a derivative flows into one of the values.

        Raises:
            AutogradError: it does; names the saved slot and the remedies.
        """
        for slot, grad in zip(self._slots, grads, strict=True):
            if grad is not None:
                raise AutogradError(
                    f"the derivative of {self.name} depends on the value saved in slot {slot}, which is neither an "
                    "input nor an output of the Function, so the terms through it would be missing: recompute it in "
                    "backward from a saved input, or return it as an output; a constant (a mask, say) is kept as an "
                    "attribute of ctx"
                )


def context_on_tape(context: FunctionNode, inputs: Items, outputs: Items) -> tuple[FunctionNode, SavedIntermediates]:
    """Return a context whose saved inputs and outputs are the given tensors and whose other saved values are leaves."""
    node = context.replay(inputs, outputs)
    tagged: list[tuple[int, Tensor]] = []
    saved = list(node._saved or ())
    for number, (slot, before) in enumerate(zip(saved, context._saved or (), strict=True)):
        if slot is not None and before is not None and before.kind is VALUE and slot.value.dtype.kind in "fc":
            leaf = leaf_of(slot.value, True)
            tagged.append((number, leaf))
            saved[number] = slot._replace(value=leaf, counter=UNSHARED, version=0)
    if node._saved is not None:
        node.keep_slots(saved)
    return node, SavedIntermediates(context.name(), tagged)


def leaf_of(tensor: Tensor, requires_grad: bool) -> Tensor:
    """Return a leaf that shares a tensor's data."""
    leaf = Tensor.made(tensor._data)
    leaf._counter = tensor._counter
    leaf._requires_grad = requires_grad
    return leaf


def edges_outside(results: Items, own: Items, since: int) -> list[Edge]:
    """Return the edges by which a local tape, made after node number `since`, leads to other graphs: through tensors
    that a backward captures or keeps in containers on ctx.

    `own` are the leaves of the tape.
    """
    ends = {leaf.edge()[0] for leaf in own if leaf is not None and leaf._requires_grad}
    stack: list[Edge] = [result.edge() for result in results if result is not None and result._requires_grad]
    seen: set[Node] = set()
    found: dict[Edge, None] = {}
    while stack:
        edge = stack.pop()
        node = edge[0]
        if node is None or node in ends or node in seen:
            continue
        if isinstance(node, AccumulateGrad):
            if node._reached:
                found[edge] = None
        elif node._sequence <= since:
            found[edge] = None
        else:
            seen.add(node)
            stack.extend([below for below in node._edges if below is not None])
    return list(found)


def grads_on_tape(
    outputs: Items,
    leaves: Items,
    cotangents: Items,
    intermediate: SavedIntermediates,
    create_graph: bool,
    outside: Sequence[Edge] = (),
) -> list[Tensor | None]:
    """Return the gradients of `outputs` by `leaves`, then those at the edges `outside`, on a local tape; None where one
    is undefined.

    Raises:
        AutogradError: a derivative flows into a saved intermediate value, or into what a backward marked with
            `once_differentiable` returned.
    """
    pairs = [
        (o, c) for o, c in zip(outputs, cotangents, strict=True) if o is not None and o._requires_grad and c is not None
    ]
    targets = [leaf for leaf in leaves if leaf is not None and leaf._requires_grad]
    if not pairs or not (targets or intermediate.leaves or outside):
        return [None] * (len(leaves) + len(outside))
    outer_nodes = frozenset([node for node, _ in outside if node is not None])
    check_differentiable([o for o, _ in pairs], outer_nodes)
    found = gradients(
        [o for o, _ in pairs],
        [*targets, *intermediate.leaves, *[GradientEdge(node, number) for node, number in outside if node is not None]],
        [c for _, c in pairs],
        create_graph,
        outer_nodes,
    )
    last = len(targets) + len(intermediate.leaves)
    intermediate.check(found[len(targets) : last])
    given = iter(found)
    return [
        *[next(given) if leaf is not None and leaf._requires_grad else None for leaf in leaves],
        *found[last:],
    ]


class PackedBackward(Node):
    """The node of a user's backward, or of a derivative of one, that ran on a local tape: it has the tape's inputs and
    results."""

    def __init__(
        self,
        name: str,
        items: Items,
        leaves: Items,
        results: Items,
        intermediate: SavedIntermediates,
        since: int,
        outside: Sequence[Edge] = (),
    ) -> None:
        """`since` is the number of the last node that was made before the tape; `outside`, the edges to other graphs
        that the tape below is known to have."""
        own = [*leaves, *intermediate.leaves]
        self._since = since
        self._outside = list(dict.fromkeys([*outside, *edges_outside(results, own, since)]))
        """Edges by which the tape leads to other graphs: further inputs of this node."""
        self._name = name
        self._items = list(items)
        self._leaves = list(leaves)
        self._results = list(results)
        self._intermediate = intermediate
        self._freed = False
        self._edges = [None if t is None else t.edge() if t._requires_grad else NO_EDGE for t in items]
        self._edges.extend(self._outside)
        self._metas = [None if t is None else (t.shape, t.dtype) for t in results]
        self._sequence = next_sequence()

    def name(self) -> str:
        """Return the name of the backward that it stands for."""
        return self._name

    def outputs(self) -> list[Tensor | None]:
        """Return the results as tensors whose producer this node is; those that need no derivative without one, and
        those that must not be differentiated with the node that says so."""
        out: list[Tensor | None] = []
        errors = delayed_error_outputs(
            self._results, frozenset([node for node, _ in self._outside if node is not None])
        )
        for number, result in enumerate(self._results):
            if result is None:
                out.append(None)
            elif number in errors:
                out.append(errors[number].instead(result))
            elif result._requires_grad:
                out.append(Tensor.made(result._data, self, number))
            else:
                out.append(Tensor.made(result._data))
        return out

    def _input_metas(self) -> Sequence[Meta | None]:
        others = [node._metas[number] for node, number in self._outside if node is not None]
        return [*[None if t is None else (t.shape, t.dtype) for t in self._items], *others]

    def _with_tangents(self, grads: list[Data | None], recorder: Recorder | None) -> Sequence[Data | None]:
        """Return the gradients with their tangents. Values kept here carry none, and the derivative is linear in the
        gradients."""
        levels = state.here.forward

        def run(values: list[Any], create_graph: bool) -> Sequence[Any]:
            if create_graph:
                return self._run(values, True, recorder)
            made = self._run([None if v is None else v._data for v in values], False, recorder)
            return [None if data is None else Tensor.made(data) for data in made]

        with active_levels(()):
            found = run(list(grads), state.here.grad)
        for depth, level in enumerate(levels):
            tangents = [None if g is None else level.of(g) for g in grads]
            if any(tangent is not None for tangent in tangents):
                with active_levels(levels[:depth]):
                    moved = run(tangents, bool(levels[:depth]) or state.here.grad)
                for result, tangent in zip(found, moved, strict=True):
                    if result is not None and tangent is not None:
                        level.carry(result, tangent)
        return found

    def _holds(self) -> bool:
        return not self._freed

    def _release(self) -> None:
        self._freed = True
        self._items, self._leaves, self._results, self._outside = [], [], [], []

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if self._freed:
            raise AutogradError(FREED)
        if create_graph and state.here.forward:
            return self._with_tangents(grads, recorder)
        if not create_graph:
            wrapped = [None if g is None else Tensor.made(g) for g in grads]
            found = grads_on_tape(self._results, self._leaves, wrapped, self._intermediate, False, self._outside)
            return [None if g is None else g._data for g in found]
        cotangents = [None if g is None else leaf_of(g, g._requires_grad) for g in grads]
        found = grads_on_tape(self._results, self._leaves, cotangents, self._intermediate, True, self._outside)
        above = PackedBackward(
            self._name + "Backward",
            [*grads, *self._items],
            [*cotangents, *self._leaves],
            found,
            self._intermediate,
            self._since,
            self._outside,
        )
        above._applied_with(self)
        return above.outputs()


def context_changes(before: dict[str, Any], ran: FunctionNode) -> dict[str, Any]:
    """Return the attributes that a backward set on `ran`, a copy of its context `before` (CX-02); tensors lose the
    local tape's history."""
    return {
        name: value.detach() if isinstance(value, Tensor) and value.grad_fn is not None else value
        for name, value in ran.__dict__.items()
        if before.get(name, _ABSENT) is not value
    }


_ABSENT: Any = object()


def run_packed(context: FunctionNode, grads: Items, run: Callable[[FunctionNode, Items], Items]) -> list[Tensor | None]:
    """Run a Function's backward on a local tape and return its gradients, with the packed node as their producer."""
    inputs: list[Tensor | None] = [None] * len(context._inputs)
    outputs: list[Tensor | None] = [None] * len(context._metas)
    for slot in context._saved or ():
        if slot is not None and slot.kind == "input":
            inputs[slot.position] = slot.value
        elif slot is not None and slot.kind == "output":
            outputs[slot.position] = context._output(slot.position, slot.value)
    for name, (kind, position) in context.references().items():
        (inputs if kind == "input" else outputs)[position] = context.__dict__[name]
    items = [*grads, *inputs, *outputs]
    leaves = [None if t is None else leaf_of(t, t._requires_grad) for t in items]
    a, b = len(grads), len(grads) + len(inputs)
    node, intermediate = context_on_tape(context, leaves[a:b], leaves[b:])
    before, since = dict(node.__dict__), next_sequence()
    results = run(node, leaves[:a])
    context.__dict__.update(context_changes(before, node))
    packed = PackedBackward(context.name() + "Backward", items, leaves, results, intermediate, since)
    packed._applied_with(context)
    return packed.outputs()
