"""Function vjps: records the derivatives of user Functions, of any order (H7).

For the backward of a Function called in a session (`recorded_function_node`), of one that ran before the session, and
of vjps recorded under create_graph. No user's backward runs here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.random_streams import PassStream, Path, path_of_pass
from raygrad.autograd.core.recorder import Data, Pending, Recorder
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.serving import CPU, device_of, is_on_device
from raygrad.autograd.forward_mode.tangents import with_tangents
from raygrad.autograd.functions.function import FunctionNode
from raygrad.autograd.nodes.anomaly import describe_origin
from raygrad.autograd.nodes.node import FREED, NO_EDGE, Node, next_sequence
from raygrad.autograd.nodes.once_differentiable import with_delayed_error
from raygrad.autograd.registry.vjp_rules import Meta
from raygrad.autograd.saved.saved_slots import INPUT, OUTPUT, VALUE
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.autograd.vmap.batched_backward import for_each_example
from raygrad.errors import AutogradError
from raygrad.proto.ir.nodes import UNPLACED, FunctionVjp, Settings, device_in
from raygrad.workers.values.contexts import Context

from ..recording.records import CONTEXT, LIVING, Constant, NodeRecord, SpecEntry
from ..recording.source_locations import user_site
from .leaf_gradients import ReachableLeaves, leaf_arguments, reachable_leaves, record_with_leaves
from .observed_signature import PendingObservation

if TYPE_CHECKING:
    from raygrad.workers.code.shipping import Shipped

    from .functions import FunctionRecorder
    from .recorded_function_node import RecordedFunction


def _named(item: Data) -> tuple[str, ...]:
    """Return what tells an item of a device from one of the host."""
    return (str(device_of(item)),) if is_on_device(item) else ()


T = TypeVar("T")


class RetainedContext(NamedTuple):
    """What a vjp needs of its Function's context, kept as long as the vjp may be differentiated (H7)."""

    context: Pending
    assigned: Sequence[tuple[str, int, Any]]
    """Attributes that the client set: (name, 1 if the value is a tensor's, what a node reads)."""
    refusal: str
    """Why what was saved must not be read any more: freed by an earlier pass, or changed in place (CX-11, CX-13)."""
    captured: int = 0
    """Tensors that the Function captures and that require grad: they follow its arguments, as if they were some."""
    reachable: ReachableLeaves | None = None
    """The leaves that backward meets."""
    settings: Settings | None = None
    """Those under which backward was recorded, which its derivatives run again; None before."""
    passes: tuple[Path, ...] = ()
    """The paths of the passes that recorded the levels below."""
    code: BackwardCode | None = None
    """What its pass ran, which its derivatives run again; None before."""


BackwardCode: TypeAlias = "tuple[str, Sequence[Pending], bool, Shipped]"
"""The code of a backward as it was at a pass: (its name in the graph, what it captures, whether it is to run at once,
how it was shipped)."""


class WantedGradients(NamedTuple):
    """The inputs whose gradients a vjp is to return."""

    positions: Sequence[int]
    metas: Sequence[Meta | None]
    places: Sequence[Device]
    """Their devices."""


class RecordedVjp(Node):
    """A vjp recorded under create_graph: a node of level `depth`, whose own backward records level `depth + 1`."""

    _base: RecordedFunction
    _retained_context: RetainedContext | None
    _depth: int
    _items: list[Tensor | None]
    _places: Mapping[int, Device] = MappingProxyType({})
    """Per wanted result, its device."""

    def _device(self, number: int) -> Device:
        return self._places.get(number, CPU)

    def name(self) -> str:
        """Return the Function's node name with the order of the derivative."""
        return self._base.name() + "Backward" * self._depth

    @staticmethod
    def run(
        base: RecordedFunction,
        retained: RetainedContext,
        depth: int,
        items: list[Tensor | None],
        wanted: WantedGradients,
        results: int,
    ) -> list[Any]:
        """Record level `depth` and return its `results` gradients as tensors, the wanted ones with a new node."""
        requires = [i for i, item in enumerate(items) if item is not None and item._requires_grad]
        data = [None if t is None else base._recorder.inputs.leaf(t) for t in items]
        if retained.settings is None:
            retained = retained._replace(settings=base._recorder.code.settings.now(state.here), code=base.code_now())
        values, flows = record_vjp(base, retained, depth, data, requires, wanted, True)
        if depth == 1 and retained.settings:  # whether a later pass looks for NaN, that pass says
            again = tuple([entry for entry in retained.settings if entry[0] != "anomaly"])
            retained = retained._replace(settings=again)
        node = RecordedVjp()
        passes = (*retained.passes, path_of_pass(state.here, within=True))
        node._base, node._depth, node._items = base, depth, items
        node._retained_context = retained._replace(passes=passes)
        node._edges = [None if t is None else t.edge() if t._requires_grad else NO_EDGE for t in items]
        node._metas = at_positions(wanted.positions, wanted.metas, results)
        node._places = dict(zip(wanted.positions, wanted.places, strict=True))
        node._sequence = next_sequence()
        assert retained.code is not None
        _, captured, _, _ = retained.code
        for value in (*[None if item is None else item._data for item in items], *captured):
            if type(value) is Pending:
                value.record.retained(value.index)
        out: list[Any] = [None] * results
        for number, (position, value) in enumerate(zip(wanted.positions, values, strict=True)):
            if value is None:
                continue
            if ~number in flows:
                out[position] = with_delayed_error(Tensor.made(value), base.name())
            else:
                flowing = number in flows
                out[position] = Tensor.made(value, node if flowing else None, position if flowing else 0)
        return out

    def _input_metas(self) -> Sequence[Meta | None]:
        return [None if t is None else (t.shape, t.dtype) for t in self._items]

    def _release(self) -> None:
        self._retained_context = None
        self._items = []

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if state.here.batches:
            made = for_each_example(lambda one: self._run(one, create_graph, recorder), grads, create_graph)
            if made is not None:
                return made
        if self._retained_context is None:
            raise AutogradError(FREED)
        context = self._retained_context
        if state.here.anomaly is not None:  # so that the node inside which a NaN appears is named (MD-05)
            check_nan = int(state.here.anomaly.check_nan)
            context = context._replace(settings=(*(context.settings or ()), ("anomaly", check_nan)))
        owner = self._base._recorder
        if owner.code.waits or owner.log.shared.changed:
            owner.code.ship(self._base._applied)
        positions = [i for i, edge in enumerate(self._edges) if edge is not None and edge[0] is not None]
        inputs: list[Any] = [self._items[i] for i in positions]
        wanted = WantedGradients(positions, [(t.shape, t.dtype) for t in inputs], [t.device for t in inputs])
        if create_graph:
            retained = context

            def run(items: list[Tensor | None]) -> list[Any]:
                return RecordedVjp.run(self._base, retained, self._depth + 1, items, wanted, len(self._items))

            items: list[Tensor | None] = [*grads, *self._items]
            return with_tangents(items, run) if state.forward else run(items)
        data = [*grads, *(None if t is None else owner.inputs.leaf(t) for t in self._items)]
        shift = len(grads)
        requires = [shift + i for i, t in enumerate(self._items) if t is not None and t._requires_grad]
        values, _ = record_vjp(self._base, context, self._depth + 1, data, requires, wanted, False)
        return at_positions(positions, values, len(self._edges))


class VjpSignature:
    """What the recorded derivatives of a Function share that are taken alike, over equal specs: looked up once, as a
    `Template` of a built-in op is."""

    __slots__ = ("assumed", "generation", "kind", "known", "learning", "outputs", "vjp", "wanted")

    def __init__(
        self,
        base: RecordedFunction,
        depth: int,
        items: Sequence[Data | None],
        requires: Sequence[int],
        wanted: WantedGradients,
        differentiate: bool,
        refusal: str,
        names: Sequence[tuple[str, int]] = (),
        captured: int = 0,
        settings: Settings | None = None,
    ) -> None:
        recorder = base._recorder
        observed = recorder.observed
        self.generation = recorder.observed.generation
        """What had been learned when it was made; see `Observations.generation`."""
        self.kind = 0
        """See `NodeRecord.kind`."""
        self.wanted = wanted.positions
        gradients: Any = zip(wanted.metas, wanted.places, strict=True)
        self.outputs = (
            _left_by(recorder, base),
            *[recorder.log.specs.of_meta(meta, place) for meta, place in gradients],
        )
        present = tuple([None if i is None else (i.shape, i.dtype.char, *_named(i)) for i in items])
        settings = recorder.code.settings.now(state.here) if settings is None else settings
        positions = tuple(wanted.positions)
        key = ("vjp", base._fn, depth, present, tuple(requires), positions, differentiate, base._of_part, settings)
        self.known = known = observed.gradients.get(key)
        self.assumed = [known is not None and i not in known.undefined for i in range(len(positions))]
        """Per result, whether it was defined in every earlier run."""
        self.learning = PendingObservation(key, fn=base._fn)
        self.vjp = FunctionVjp(
            *UNPLACED,
            fn=base._fn,
            depth=depth,
            items=len(items),
            arguments=len(base._inputs) + captured,
            results=len(base._metas),
            wanted=positions,
            requires_grad=tuple(requires),
            differentiated=differentiate,
            refusal=refusal,
            expected=known,
            retained=recorder.log.recorder.retaining,
            spared=base._of_part,
            attributes=tuple(names),
            reports_effects=depth == 1 and observed.backward_effects.get(base._fn) is None,
            leaves=None,
            settings=settings,
        )


def _left_by(recorder: FunctionRecorder, base: RecordedFunction) -> SpecEntry:
    """Return what is known of a context as a backward leaves it: where the pass keeps what was saved, as before."""
    context: Any = base._context
    if recorder.log.recorder.retaining and context is not None:
        return context.record.outputs[context.index]
    return LIVING if base._pinned else CONTEXT


def record_vjp(
    base: RecordedFunction,
    retained: RetainedContext,
    depth: int,
    items: Sequence[Data | None],
    requires: Sequence[int],
    wanted: WantedGradients,
    differentiate: bool,
) -> tuple[list[Pending | None], frozenset[int]]:
    """Record level `depth` of a Function's derivatives.

    Returns:
        One pending gradient per wanted position (None where known to be undefined), and the numbers of those that
        require grad (~number where its derivative is refused); the latter is learned by running when `differentiate`
        (H7).
    """
    recorder = base._recorder
    with recorder.log.lock:
        names = [(name, is_tensor) for name, is_tensor, _ in retained.assigned]
        shape = VjpSignature(
            base,
            depth,
            items,
            requires,
            wanted,
            differentiate,
            retained.refusal,
            names,
            retained.captured,
            retained.settings,
        )
        sources = recorder.inputs.sources((retained.context, *items))
        sources.extend([source for _, _, source in retained.assigned])
        reachable = retained.reachable
        made, results = _recorded(
            base,
            shape,
            sources,
            reachable if depth == 1 or reachable is None else reachable.again(),
            retained.passes,
            retained.code,
        )
        if not differentiate:
            return results, frozenset()
        if recorder.code.waits:
            recorder.code.settle()
        known, learning = shape.known, shape.learning
        if known is None:
            recorder.execution.submit()
            recorder.execution.wait_for(made, lambda: learning.undefined is not None)
            known = learning.undefined
        assert known is not None
        for i, result in enumerate(results):
            if i in known.undefined:
                results[i] = None
            elif result is not None:
                result.defined = True
        return results, frozenset(known.differentiable)


def record_backward(base: RecordedFunction, grads: Sequence[Data | None], refusal: str) -> Sequence[Data | None]:
    """Record the backward of a Function that is not to be differentiated: nearly always. Returns its gradients, one
    per argument."""
    recorder = base._recorder
    with recorder.log.lock:
        saved_inputs, saved_outputs = base._saved_inputs, base._saved_outputs
        items: list[Data | None] = [*grads]
        for i in range(len(base._inputs)):
            items.append(saved_inputs.get(i))
        for j in range(len(base._metas)):
            items.append(saved_outputs.get(j))
        if base._assigned or base._notes:  # hardly ever
            return base.record_changed(items, refusal)
        needed = base._needed
        alike: list[Any] = [
            recorder.log.recorder.retaining,
            base._of_part,
            refusal,
            None if needed is None else tuple(needed),
            settings := recorder.code.settings_in_pass(state.here),
        ]
        for grad in grads:
            alike.append(None if grad is None else (grad.shape, grad.dtype))
        key = tuple(alike)
        # what was freed may run again if it reads nothing that was saved
        shape = None if base._freed else base._shapes.get(key)
        if shape is None or shape.generation != recorder.observed.generation:
            shape = VjpSignature(
                base, 1, items, base._requiring(), wanted_gradients(base), False, refusal, (), 0, settings
            )
            if not base._freed:
                base._shapes[key] = shape
                shape.kind = 0 if device_in(settings) else next(recorder.log.kinds)
        sources = recorder.inputs.sources((base._context, *items))
        results = _recorded(base, shape, sources, base.reachable() if base._leaf_effects else None)[1]
        count = len(base._edges)
        return results if len(results) == count else at_positions(shape.wanted, results, count)


def _recorded(
    base: RecordedFunction,
    shape: VjpSignature,
    sources: list[Any],
    reachable: ReachableLeaves | None,
    passes: tuple[Path, ...] = (),
    code: BackwardCode | None = None,
) -> tuple[NodeRecord, list[Pending | None]]:
    """Record a derivative that reads the context and `sources`, and return its record and its results. `passes` are
    those of the levels below, `code` is what the first of them ran: by default what stands there now."""
    recorder = base._recorder
    fn, captured, at_once, shipped = base.code_now() if code is None else code
    if shape.vjp.depth > 1:
        recorder.code.use(shipped)
    if captured:
        sources += recorder.inputs.sources(captured)
    vjp = shape.vjp
    if vjp.fn != fn:
        vjp = vjp._replace(fn=fn)
    made = record_with_leaves(recorder.inputs, vjp, sources, shape.outputs, base._site, reachable)
    made.kind = shape.kind if made.work is shape.vjp else 0
    if state.here.anomaly is not None:
        made.story = describe_origin(base)
    made.near = sources[0]
    if at_once:
        made.effects = True
    stream: Any = state.here.stream
    inside = isinstance(stream, PassStream) and stream.path is not None  # nearly always
    made.paths = (base._path, *passes, stream.path if inside else path_of_pass(state.here, within=True))
    made.call_cost = base._call_cost
    made.learn = shape.learning
    results: list[Pending | None] = [made.output(i, None, assumed) for i, assumed in enumerate(shape.assumed, 1)]
    if vjp.depth == 1:
        base._ran(made)
    return made, results


def vjp_of_eager(recorder: FunctionRecorder, node: Any, grads: Sequence[Data | None]) -> list[Data | None]:
    """Record the backward of a Function that was applied outside the session: its context goes along as a value."""
    node.check_saved()
    shipped = recorder.code.ship(node._function)
    slots = node.unpacked_slots()
    bare = node.freed(slots)
    bare._pre_hooks = bare._post_hooks = None  # the pass records them as nodes of their own
    packed = Context(bare).packed()  # without tensors of the client's graph: workers get data only
    context = Constant(Context(Context(packed=packed).live(node._function)), CONTEXT)
    items: list[Data | None] = [*grads]
    held = slots if slots and node.readable else ()
    saved = {(slot.kind, slot.position): slot for slot in held if slot is not None and slot.kind is not VALUE}
    for kind, count in ((INPUT, len(node._inputs)), (OUTPUT, len(node._metas))):
        for position in range(count):
            slot = saved.get((kind, position))
            if slot is None:
                items.append(None)
            else:
                items.append(slot.value if kind is OUTPUT else recorder.inputs.leaf(slot.value))
    wanted = wanted_gradients(node)
    with recorder.log.lock:
        sources = [context, *recorder.inputs.sources((*items, *recorder.code.captured(shipped)))]
        leaves = leaf_arguments(node._edges, {i for what, i in saved if what == INPUT})
        reachable = reachable_leaves(
            recorder.inputs, recorder.code.effects(node._function, shipped), shipped.captured, leaves
        )
        gradients: Any = zip(wanted.metas, wanted.places, strict=True)
        outputs = [CONTEXT, *[recorder.log.specs.of_meta(meta, place) for meta, place in gradients]]
        requires = tuple([len(node._metas) + i for i, edge in enumerate(node._edges) if edge is not None and edge[0]])
        vjp = FunctionVjp(
            *UNPLACED,
            fn="@" + shipped.fingerprint,
            depth=1,
            items=len(items),
            arguments=len(node._inputs),
            results=len(node._metas),
            wanted=tuple(wanted.positions),
            requires_grad=requires,
            differentiated=False,
            refusal="",
            expected=None,
            retained=recorder.log.recorder.retaining,
            spared=node._of_part,
            attributes=(),
            reports_effects=False,
            leaves=None,
            settings=recorder.code.settings.now(state.here),
        )
        made = record_with_leaves(recorder.inputs, vjp, sources, outputs, user_site(), reachable)
        made.effects |= recorder.code.will_run(shipped)
        made.paths = (node._path, path_of_pass(state.here, within=True))
    if held and node._function._traits.read_once:
        node.give_up_saved()  # the copy that goes along is the one that is read
    values = [made.output(number, None) for number in range(1, 1 + len(wanted.positions))]
    return at_positions(wanted.positions, values, len(node._edges))


def wanted_gradients(node: FunctionNode) -> WantedGradients:
    """Return the inputs of a Function whose gradients the pass needs (CX-18)."""
    needed, places = node._needed, node._input_places
    wanted = [
        i
        for i, edge in enumerate(node._edges)
        if edge is not None and edge[0] is not None and (needed is None or needed[i])
    ]
    on = [CPU if places is None else places[i] or CPU for i in wanted]
    return WantedGradients(wanted, [node._inputs[i] for i in wanted], on)


def at_positions(positions: Sequence[int], values: Sequence[T], count: int) -> list[T | None]:
    """Return `count` entries: the values at their positions, None elsewhere."""
    found = dict(zip(positions, values, strict=True))
    return [found.get(position) for position in range(count)]
