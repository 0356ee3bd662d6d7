"""Hook recorder: records calls of user hooks, which run on the worker of their node, and what user code emits.

The engine decides in which order hooks run, and calls this through the session's recorder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Data
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.serving import CPU, device_of
from raygrad.autograd.functions.function import FunctionNode
from raygrad.autograd.nodes.node import Node
from raygrad.autograd.nodes.op_node import OpNode
from raygrad.autograd.registry.vjp_rules import Meta
from raygrad.errors import NotShippable
from raygrad.proto.ir.nodes import UNPLACED, Emit, HookCall
from raygrad.proto.ir.specs import UnknownSpec
from raygrad.workers.code.pickling import pickle_around_tensors

from ..recording.operations import OperationRecorder, definedness, read_by
from ..recording.records import Constant, NodeRecord, SpecEntry
from ..recording.source_locations import user_site
from .leaf_gradients import reachable_leaves, record_with_leaves
from .user_code import UserCode


class HookRecorder:
    """Records calls of user hooks, and emits."""

    def __init__(self, operations: OperationRecorder, code: UserCode) -> None:
        self._operations = operations
        self._inputs = operations.inputs
        self._log = operations.inputs.log
        self._code = code

    def hook(
        self,
        kind: str,
        hook: Any,
        owner: Node,
        values: Sequence[Data | None],
        metas: Sequence[Meta | None],
        extra_inputs: Sequence[Data | None] = (),
    ) -> list[Data | None]:
        """See `Recorder.hook`."""
        code, source, specs = self._code, self._inputs.source, self._log.specs
        with self._log.lock:
            shipped = code.ship(hook)
            sources = self._inputs.sources((*values, *extra_inputs, *code.captured(shipped)))
            reachable = (
                reachable_leaves(self._inputs, code.effects(hook, shipped), shipped.captured)
                if shipped.captured
                else None
            )
            unknown = specs.entry(UnknownSpec())
            outputs: Sequence[SpecEntry] = [
                specs.of_meta((v.shape, v.dtype), device_of(v))
                if v is not None
                else specs.of_meta(m, _place_in(owner, kind, j))
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
                leaves=None,
                settings=code.settings.now(state.here),
            )
            made = record_with_leaves(self._inputs, call, sources, outputs, user_site(), reachable)
            made.paths = state.here.stream.paths  # type: ignore[union-attr]  # the pass has set it for this hook
            made.near = source(getattr(owner, "_context", None))
            if code.will_run(shipped):
                made.effects = True
            results: list[Data | None] = []
            for i, value in enumerate(values):
                if metas[i] is None and value is None:
                    results.append(None)  # no tensor there: nothing can be put in its place
                else:
                    # a tensor hook cannot take a gradient away; a node hook can
                    results.append(made.output(i, *(definedness((value,)) if kind == "tensor" else (None, False))))
            return results

    def emit(self, name: str, value: Any) -> None:
        """See `Recorder.emit`."""
        try:
            packed, pickler = pickle_around_tensors((name, value))
        except NotShippable as error:
            raise NotShippable(f"rg.emit({name!r}, ...) at {user_site()}: {error}") from error
        with self._log.lock:
            sources = [
                Constant(packed),
                *(
                    self._inputs.source(self._operations.on_host(self._inputs.leaf(tensor)))
                    for tensor in pickler.captured
                ),
            ]
            made = NodeRecord(self._log, Emit(*UNPLACED), sources, (), user_site())
            made.effects = True
            self._log.add(made)


def _place_in(owner: Node, kind: str, number: int) -> Device:
    """Return the device on which a gradient is that a hook is shown: of an output of a node, or behind it of an
    argument."""
    if kind != "post":
        return owner._device(number)
    if isinstance(owner, OpNode):
        return read_by(owner, owner._device(0))
    places = owner._input_places if isinstance(owner, FunctionNode) else None
    return CPU if places is None else places[number] or CPU
