"""Leaf gradients: the leaves that user code can reach on a worker, to whose `.grad` its own passes may add (H16).

Recorders of hooks, Functions and vjps enter them as inputs of their nodes, and the new gradients as outputs, in program
order: each node reads the gradient that the one before it left. Nodes whose code only adds gradients do not read any,
so that an ensemble's backwards need not wait for each other: sums add what they return.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.devices.serving import CPU
from raygrad.autograd.nodes.accumulator import AccumulateGrad
from raygrad.autograd.nodes.captured_leaves import LEAF, kind_of_capture, set_captured_gradient
from raygrad.autograd.nodes.node import Edge
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.ir.nodes import FunctionVjp, HookCall, LeafGrads
from raygrad.workers.code.effects import ADDS, REPLACES
from raygrad.workers.interpreter.leaf_gradients import (
    ADDED,
    ARGUMENT,
    CAPTURED,
    DISCARDED,
    HELD,
    HOME,
    REFUSED,
    RETURNED,
)

from ..recording.records import NodeRecord

if TYPE_CHECKING:
    from raygrad.workers.interpreter.leaf_gradients import Entry

    from ..recording.record_inputs import InputRecorder
    from ..recording.records import SpecEntry
    from ..recording.source_locations import Site


class ReachableLeaves(NamedTuple):
    """What a node records of the leaves that it meets."""

    leaves: Sequence[Tensor]
    entries: Sequence[Entry]
    grads: Sequence[Pending | None]
    """The gradients that they have."""
    fate: int
    replaces: bool
    """Whether the code may assign `.grad`, rather than add to what is there."""

    @property
    def in_node(self) -> LeafGrads:
        """What the node says of them."""
        return LeafGrads(tuple(self.entries), self.fate)

    def again(self) -> ReachableLeaves:
        """Return the same for a derivative of the node, whose run is not to be noticed."""
        return self._replace(fate=DISCARDED)


def record_with_leaves(
    inputs: InputRecorder,
    work: HookCall | FunctionVjp,
    sources: list[Any],
    outputs: Sequence[SpecEntry],
    site: Site | None,
    reachable: ReachableLeaves | None,
) -> NodeRecord:
    """Append the record of user code that runs even when nobody holds an output, and that meets leaves: it reads their
    gradients after `sources`, and returns new ones after `outputs`."""
    grads: list[SpecEntry] = []
    if reachable is not None:
        work = work._replace(leaves=reachable.in_node)
        sources.extend(inputs.sources(reachable.grads))
        if reachable.fate in RETURNED:
            grads = [inputs.log.specs.of_meta((leaf.shape, leaf.dtype), leaf.device) for leaf in reachable.leaves]
    made = NodeRecord(inputs.log, work, sources, (*outputs, *grads) if grads else outputs, site)
    made.effects = True
    inputs.log.add(made)
    if reachable is not None and grads:
        for number, leaf in enumerate(reachable.leaves, len(outputs)):
            grad = made.output(number, None)
            if reachable.fate == ADDED:
                assert leaf._grad is not None
                grad = inputs.log.recorder.add(leaf._grad._data, grad)
            set_captured_gradient(leaf, grad, inputs.log.recorder, out_of_place=reachable.replaces)
    return made


def _is_addable(grad: Pending | None) -> bool:
    """Return whether a worker can add to a gradient what a node returns of a list of arrays: those of devices cannot
    leave their worker in one."""
    return grad is not None and grad.device is CPU


def leaf_arguments(edges: Sequence[Edge | None], saved: Container[int]) -> list[tuple[int, Tensor]]:
    """Return the arguments of a Function, of those that it saved, that are leaves, each with its position."""
    return [
        (i, edge[0].variable)
        for i, edge in enumerate(edges)
        if i in saved and edge is not None and isinstance(edge[0], AccumulateGrad)
    ]


def reachable_leaves(
    inputs: InputRecorder,
    effects: int,
    captured: Sequence[Any],
    arguments: Iterable[tuple[int, Tensor]] = (),
    held: Mapping[int, Any] | None = None,
    *,
    forward: bool = False,
) -> ReachableLeaves | None:
    """Return the leaves that a node meets, None if it meets none with whose gradient its code could do anything.

    Args:
        inputs: of the session.
        effects: what the code might do, see `of_gradients`.
        captured: what the code captures.
        arguments: positions of arguments of the Function that are leaves, and these.
        held: by number, what objects among the arguments of forward hold.
        forward: the node is a forward: a gradient that it adds has no way home.
    """
    if not effects:
        return None
    found: dict[int, tuple[Tensor, list[tuple[int, int]]]] = {}
    adds = bool(effects & ADDS)
    for where, values in ((HELD, (held or {}).items()), (ARGUMENT, arguments), (CAPTURED, enumerate(captured))):
        for number, one in values:
            if not isinstance(one, Tensor) or kind_of_capture(one) != LEAF or not (adds or one._grad is not None):
                continue
            if not (one._hooks or one._after_accumulation):  # which only the client can run
                found.setdefault(id(one), (one, []))[1].append((where, number))
    if not found:
        return None
    leaves = [leaf for leaf, _ in found.values()]
    grads = [None if leaf._grad is None else inputs.leaf(leaf._grad) for leaf in leaves]
    fate = HOME if adds and not forward else REFUSED
    if fate == HOME and effects == ADDS and all(map(_is_addable, grads)):
        fate, grads = ADDED, [None] * len(leaves)
    return ReachableLeaves(
        leaves, [tuple(places) for _, places in found.values()], grads, fate, bool(effects & REPLACES)
    )
