"""Recording hooks, which fire on the worker of their node, and what user code emits.

Rules of this file: the methods of `SessionRecorder` that record a hook or an emit; in which order hooks fire is the
engine's affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raygrad.autograd.core.recorder import Data
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.serving import CPU, device_of
from raygrad.autograd.dispatch.autocast import capture_modes
from raygrad.autograd.functions.function import FunctionNode
from raygrad.autograd.nodes.node import Node
from raygrad.autograd.nodes.op_node import OpNode
from raygrad.autograd.registry.vjp_rules import Meta
from raygrad.errors import NotShippable
from raygrad.proto.ir.nodes import UNPLACED, Emit, HookCall
from raygrad.proto.ir.specs import UnknownSpec
from raygrad.workers.code.pickling import pickle_around_tensors

from ..recording.operations import definedness, on_host, read_by
from ..recording.records import Constant, NodeRecord, SpecEntry
from ..recording.source_locations import user_site
from .leaf_gradients import leaves_met

if TYPE_CHECKING:
    from ..session.recorder import SessionRecorder


def record_hook(
    self: SessionRecorder,
    kind: str,
    hook: Any,
    owner: Node,
    values: Sequence[Data | None],
    metas: Sequence[Meta | None],
    extra_inputs: Sequence[Data | None] = (),
) -> list[Data | None]:
    with self.lock:
        shipped = self.code(hook)
        sources = [self.source(v) for v in (*values, *extra_inputs, *self.captured(shipped))]
        met = leaves_met(self, self.conduct(hook, shipped), shipped.captured) if shipped.captured else None
        unknown = self.entry(UnknownSpec())
        outputs: Sequence[SpecEntry] = [
            self.plain_on((v.shape, v.dtype), device_of(v))
            if v is not None
            else self.plain_on(m, _place_in(owner, kind, j))
            if m is not None
            else unknown
            for j, (v, m) in enumerate(zip(values, metas, strict=True))
        ]
        call = HookCall(
            *UNPLACED,
            fn="@" + shipped.fingerprint,
            kind=kind,
            gradients=len(values),
            shown=len(extra_inputs),
            leaves=None if met is None else met.in_node,
            casting=capture_modes(),
        )
        if met is not None:
            outputs = met.join(self, sources, outputs)
        made = NodeRecord(self, call, sources, outputs, user_site())
        made.effects = True
        made.near = self.source(getattr(owner, "_context", None))
        self.add_record(made)
        if met is not None:
            met.come_home(self, made)
        results: list[Data | None] = []
        for i, value in enumerate(values):
            if metas[i] is None and value is None:
                results.append(None)  # no tensor there: nothing can be put in its place
            else:
                # a tensor hook cannot take a gradient away; a node hook can
                results.append(made.output(i, *(definedness((value,)) if kind == "tensor" else (None, False))))
        return results


def record_emit(self: SessionRecorder, name: str, value: Any) -> None:
    try:
        packed, tensors = pickle_around_tensors((name, value))
    except NotShippable as error:
        raise NotShippable(f"rg.emit({name!r}, ...) at {user_site()}: {error}") from error
    with self.lock:
        sources = [Constant(packed), *(self.source(on_host(self, self.leaf(tensor))) for tensor in tensors)]
        made = NodeRecord(self, Emit(*UNPLACED), sources, (), user_site())
        made.effects = True
        self.add_record(made)


def _place_in(owner: Node, kind: str, number: int) -> Device:
    """Return the device on which a gradient is that a hook is shown: of an output of a node, or behind it of an
    argument."""
    if kind != "post":
        return owner._device(number)
    if isinstance(owner, OpNode):
        return read_by(owner, owner._device(0))
    places = owner._input_places if isinstance(owner, FunctionNode) else None
    return CPU if places is None else places[number] or CPU
