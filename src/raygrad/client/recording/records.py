"""Records: nodes before and after they are submitted, with their sources, output specs and holder counts.

Recorders make them, `submission` turns them into a graph. A record names its sources by (record, output, holder) or by
constant. It holds the `Pending` value itself only of earlier runs, so that a value nobody wants is freed at once.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from raygrad.autograd.core.array_layout import is_array
from raygrad.autograd.core.recorder import FEW_OUTPUTS, AbstractNodeRecord, Pending, Recorder, RecordTemplate
from raygrad.autograd.devices.serving import CPU, device_named
from raygrad.autograd.nodes.captured_leaves import kind_of_capture
from raygrad.errors import NotShippable
from raygrad.proto.ir.nodes import Node, OpCall, OpVjp
from raygrad.proto.ir.specs import LIVE, UNSEEN, ArraySpec, ConstSpec, ContextSpec, Spec, bytes_of
from raygrad.workers.code.array_form import ARRAYS, NUMERIC, FormedArray, base_of, form_of
from raygrad.workers.code.nested_tensors import Embedding, copy_argument, extract_tensors, holds_tensors

from .source_locations import Site

if TYPE_CHECKING:
    from raygrad.autograd.tensor.tensor import Tensor

    from ..functions.call_costs import CallCost
    from .record_log import RecordLog


class SpecEntry:
    """A spec, interned per session: equal specs are one object, compared and hashed by identity."""

    __slots__ = ("bytes", "device", "dtype", "is_context", "local", "shape", "spec", "stamp", "unary")

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.shape: tuple[int, ...] = ()
        self.is_context = isinstance(spec, ContextSpec)
        self.dtype: np.dtype[Any] | None = None
        self.device = CPU
        self.bytes = 0
        """Of an array, as far as its spec tells."""
        self.stamp = -1
        """The graph for which `local` is valid."""
        self.local = -1
        self.unary: dict[str, Template] = {}
        """By name, ops of one operand and no params that were recorded over it."""
        if isinstance(spec, ArraySpec):
            self.shape, self.dtype, self.device = spec.shape, np.dtype(spec.dtype), device_named(spec.device)
            self.bytes = bytes_of(spec)


CONST = SpecEntry(ConstSpec())
CONTEXT = SpecEntry(ContextSpec())
LIVING = SpecEntry(ContextSpec(UNSEEN, LIVE))
"""A context that does not leave its worker's process."""


class Constant:
    """A Python object that a node reads: supplied when the graph runs, not hashed (H9)."""

    __slots__ = ("__weakref__", "inside", "moved", "spec", "value")

    def __init__(self, value: Any, spec: SpecEntry = CONST, inside: Sequence[Tensor] = ()) -> None:
        self.value = value
        self.spec = spec
        self.inside = inside
        """The tensors in it, which are sources of their own: then the value is an `Embedding`."""
        self.moved = ""
        """The device from which the client moved it, to send it."""


def snapshot(value: Any, function: type[Any] | None = None, name: int | str = "") -> tuple[Constant, Any]:
    """Return a non-tensor argument as it is now, and what identifies it among equal ones (H17); errors tell of which
    Function's `apply` it is, and its name or number there.

    Raises:
        NotShippable: it cannot be copied or pickled.
    """
    kind = cast("type[Any]", type(value))
    if kind in (int, float, bool, str, bytes, complex, type(None)):
        return Constant(value), (kind, value)
    if is_array(value) and value.dtype.kind in NUMERIC:
        form = form_of(value) if kind in ARRAYS else None  # of a derived class, only a copy keeps what it adds
        kept = value.copy(order="K") if form is None else base_of(value)
        kept.flags.writeable = False
        held = kept if form is None else FormedArray(kept, form)
        identity = ("array", kind, value.shape, value.dtype.str, form or kept.strides)
        return Constant(held, _constant_of(kept.nbytes)), identity
    if function is not None and holds_tensors(value):
        return embedded(value, function, name)
    try:
        blob, kept = copy_argument(value)
    except Exception as error:
        what = "what is set on a context" if function is None else f"argument {name!r} of {function.__name__}.apply"
        raise NotShippable(
            f"{what} is of type {kind.__name__}, which cannot travel to a worker ({error}); pass plain data, or make "
            "it inside forward"
        ) from error
    return Constant(kept), ("pickle", blob)


OBJECTS: Final = ("pickle", "embedded")
"""What the identity of an argument begins with that is no plain value or array."""


def _constant_of(size: int) -> SpecEntry:
    """Return what is known of a constant that holds so many bytes: large ones count where memory is limited."""
    return CONST if size < LARGE else _large_constant(size)


@functools.lru_cache(maxsize=1024)
def _large_constant(size: int) -> SpecEntry:
    return SpecEntry(ConstSpec(size))


LARGE: Final = 4096
"""Bytes of a constant that counts."""


def embedded(value: Any, function: type[Any], name: int | str, of_several: bool = False) -> tuple[Constant, Any]:
    """Return the same of an argument with tensors in it, which are yet to be placed, or of a tuple of several."""
    what = f"argument {name!r} of {function.__name__}.apply"
    try:
        data, tensors = extract_tensors(value)
    except NotShippable as error:
        raise NotShippable(f"{what}: {error}") from error
    places = tuple([(-1, kind_of_capture(tensor)) for tensor in tensors])
    return Constant(Embedding(data, places, of_several), inside=tensors), ("embedded", data, places)


def place_embedded(constants: Sequence[Constant], args: Sequence[Any]) -> tuple[list[Tensor], tuple[int, ...]]:
    """Say in each embedding which of its tensors are arguments; return the others, in order, and what was said."""
    others: list[Tensor] = []
    said: list[int] = []
    for constant in constants:
        places: list[tuple[int, int]] = []
        for tensor, (_, kind) in zip(constant.inside, constant.value.places, strict=True):
            position = next((p for p, arg in enumerate(args) if arg is tensor), -1)
            places.append((position, kind))
            said.append(position)
            if position < 0:
                others.append(tensor)
        constant.value = Embedding(constant.value.data, tuple(places), constant.value.of_several)
        constant.inside = ()
    return others, tuple(said)


Source: TypeAlias = "tuple[NodeRecord, int, Pending | None] | Constant | None"
"""What a node reads: (record, output, holder), a constant, or nothing (an undefined gradient)."""


class Template(RecordTemplate):
    """What records of one op over equal specs share, so that recording it again costs a lookup."""

    __slots__ = ("again", "call", "kind", "outputs", "vjps")

    def __init__(self, call: OpCall, outputs: Sequence[SpecEntry], kind: int) -> None:
        self.node = None
        self.call = call
        self.outputs = outputs
        self.again = len(outputs) == 1 and outputs[0].device is CPU
        """Whether it may be recorded again in few steps."""
        self.kind = kind
        """See `NodeRecord.kind`."""
        self.vjps: dict[tuple[int, ...], tuple[OpVjp, Sequence[SpecEntry], int]] = {}
        """Per set of wanted operands: the vjp, its outputs, and its kind."""


class NodeRecord(AbstractNodeRecord):
    """One recorded node. After submission it keeps only where its values are."""

    __slots__ = (
        "__weakref__",
        "call_cost",
        "effects",
        "failed",
        "kind",
        "leaf",
        "learn",
        "near",
        "needed",
        "outputs",
        "paths",
        "pin",
        "pinned",
        "site",
        "sources",
        "story",
        "template",
        "values",
        "work",
    )

    def __init__(
        self,
        log: RecordLog,
        work: Node,
        sources: Sequence[Source],
        outputs: Sequence[SpecEntry],
        site: Site | None,
    ) -> None:
        self.recorder: Any = log.recorder
        self.work = work
        """What it does: a node of no graph yet (`UNPLACED`). In an `OpVjp`, `SpecEntry` objects stand for the spec
        indices that they will have in the graph."""
        self.sources: Sequence[Source] = sources
        self.outputs: Sequence[SpecEntry] = outputs
        self.site = site
        self.live = self.saved = 0
        self.live_others = self.saved_others = None
        self.run = self.base = -1
        self.effects = False
        """It runs even when nobody holds an output."""
        self.near: Source = None
        self.paths: tuple[Any, ...] = ()
        """Of user code, the paths by which it draws random numbers; see `Call.paths`."""
        self.leaf: Constant | None = None
        """What it moves to a device, of what the client has: then it can be done again."""
        self.template: Template | None = None
        self.kind = 0
        """A number that no record has which differs in its work, number of sources or outputs; 0 for those that have no
        such number."""
        self.pin = -1
        self.pinned = False
        """Its context stays on its worker (H10)."""
        self.needed = -1
        self.learn: Any = None
        self.story = ""
        """Under anomaly detection, where the node was made whose derivative this is (MD-06)."""
        self.call_cost: CallCost | None = None
        """What is known of the time of a call of a user Function; its derivatives have the same."""
        self.failed = False
        self.values: dict[int, Any] | None = None
        """Outputs already at the client."""

    def output(self, index: int, defined: bool | None = True, assumed: bool = False) -> Pending:
        """Return the pending value of an output; call once per output and keep it."""
        entry = self.outputs[index]
        if index < FEW_OUTPUTS:  # as `hold` does, without a call for each value
            self.live |= 1 << index
        else:
            self.hold(index)
        made = _new(Pending)  # whose constructor takes longer than the rest
        made.record, made.index = self, index
        made.shape, made.dtype, made.spec = entry.shape, entry.dtype, entry
        made.defined, made.assumed = defined, assumed
        return made

    def hold(self, index: int) -> None:
        """Note that somebody holds output `index`."""
        if index < FEW_OUTPUTS:
            self.live |= 1 << index
            return
        self.live |= 1 << FEW_OUTPUTS
        if self.live_others is None:
            self.live_others = set()
        self.live_others.add(index)

    def held_outputs(self) -> list[int]:
        """Return the outputs that somebody holds, in order."""
        live = self.live
        held = [index for index in range(min(live.bit_length(), FEW_OUTPUTS)) if live >> index & 1]
        return held + sorted(self.live_others) if self.live_others else held

    def rely(self) -> None:
        """See `AbstractNodeRecord.rely`."""
        if self.learn is not None and self.learn.presumes:
            self.learn.rely()

    def await_facts(self, *, reading: bool = True) -> None:
        """See `AbstractNodeRecord.await_facts`."""
        if self.learn is not None and self.learn.presumes and not self.learn.relied_on:
            started = time.monotonic()
            self.recorder.execution.wait_for_facts(self)
            if not reading:
                self.learn.waited(time.monotonic() - started)


_new: Any = object.__new__


def record_of_op(
    log: RecordLog,
    recorder: Recorder,
    work: Node,
    sources: Sequence[Source],
    outputs: Sequence[SpecEntry],
    site: Site | None,
    template: Template | None,
    kind: int,
) -> NodeRecord:
    """Return the same as `NodeRecord(log, ...)` for a built-in op, in half the time: most records are made here."""
    self = _new(NodeRecord)
    self.recorder = recorder
    self.work = work
    self.sources = sources
    self.outputs = outputs
    self.site = site
    self.template = template
    self.kind = kind
    self.pin = log.pin
    self.live = self.saved = 0
    self.effects = self.pinned = self.failed = False
    self.paths = ()
    self.leaf = self.near = self.learn = self.values = self.call_cost = self.live_others = self.saved_others = None
    self.needed = self.run = self.base = -1
    self.story = ""
    return self


class LeafRecord(AbstractNodeRecord):
    """An array of the client: a snapshot that submissions send along."""

    __slots__ = ("constant",)

    def __init__(self, recorder: Recorder, constant: Constant) -> None:
        super().__init__(recorder)
        self.constant = constant

    def output(self) -> Pending:
        """Return the pending value that stands for the array."""
        array, spec = self.constant.value, self.constant.spec
        return Pending(self, 0, array.shape, array.dtype, spec)


def spec_of_array(shape: tuple[int, ...], dtype: str, layout: Any = None, device: str = "cpu") -> ArraySpec:
    """Return the spec of an array value."""
    return ArraySpec(shape, dtype, device, layout)
