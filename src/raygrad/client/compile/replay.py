"""Replay: one recorded call as a graph whose leaves, variables and outputs are bound anew at each call.

Made once from a trace, it names the graph's inputs by where the next call finds them. `compiled` decides when it may be
replayed.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from raygrad.autograd.core.pytree import flatten, tree_map, unflatten
from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.storage.storage import owner_of
from raygrad.autograd.storage.version_counter import bump
from raygrad.autograd.storage.view import LostData
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.ir.graph import structural_hash
from raygrad.workers.code.array_form import base_of
from raygrad.workers.executors.calls import External, GraphSubmission, KeptExternal, SuppliedExternal

from ..functions.call_costs import replayed_calls
from ..recording.records import Constant, LeafRecord, NodeRecord
from ..recording.snapshot_cache import is_still, value_of_leaf
from ..recording.variables import Write
from ..submission.program_order import looking_in_program_order
from ..submission.submission import build, needed_records
from .stream_positions import RecordedPaths, StreamPositions
from .tracing import RandomDraw, Root, Trace, aliases_among, key_of, shares_memory, value_of

if TYPE_CHECKING:
    from ..functions.user_code import UserCode
    from ..recording.record_inputs import InputRecorder

_NOTHING: Any = object()

MAX_INLINED_BYTES: Final = 1024
"""Size up to which new values of variables (parameters, gradients, state) are inlined in the record of a run: larger
ones would be fetched in each iteration of a loop, and hardly ever read."""

_stamps = itertools.count(-2, -1)
"""Marks records that a replay needs; submissions count upwards."""


class _GraphOutput(NamedTuple):
    """A value that the graph makes."""

    maker: int
    """The key of its record in `Replay._makers`."""
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    defined: bool | None
    assumed: bool


class _NewTensor(NamedTuple):
    """A new tensor around a value."""

    number: int
    """The id of the tensor that the call made: equal numbers are one tensor."""
    value: Any


class _VariableRebinding(NamedTuple):
    """A variable that is rebound, the attribute of an owner."""

    owner: Any
    """A root, or the object with the attribute."""
    attribute: str
    first: Any
    """What it is set to before (`_NOTHING`: it is not): what a failure falls back to."""
    value: Any


def without_history(roots: Container[int], result: Any) -> Any:
    """Return what a call returned as replays return it: tensors that it made, whose ids are not among `roots`, have no
    history.

    Raises:
        TypeError: it is not made of tensors.
    """
    fresh: dict[int, Tensor] = {}

    def plain(leaf: Any) -> Any:
        if leaf is None or id(leaf) in roots:
            return leaf
        if not isinstance(leaf, Tensor):
            raise TypeError(
                f"a compiled function returns tensors, None, and lists, tuples and dicts of them, not "
                f"{type(leaf).__name__}: a replay does not run its Python code, and would return the same one again"
            )
        if not leaf._requires_grad:
            return leaf
        return fresh.setdefault(id(leaf), Tensor.made(value_of(leaf)))

    return tree_map(plain, result)


class Replay:
    """What a call left to be done again."""

    def __init__(
        self,
        inputs: InputRecorder,
        trace: Trace,
        result: Any,
        writes: Sequence[Write],
        code: UserCode,
    ) -> None:
        """Make it from what has been recorded and not yet submitted. Where a replay could not do what the call did, the
        trace says why, and the call that is made is of no use.
        """
        self._trace = trace
        self._ended = StreamPositions()
        """Where the random stream stood when the call ended."""
        self._inputs = inputs
        self._makers: dict[int, NodeRecord] = {}
        """By the id that each had in the call, the records that make its results and variables."""
        self._tensors: list[Tensor] = []
        self._written: list[Root] = []
        """The roots that are changed in place."""
        leaves, self._structure = flatten(result)
        self._check_apart(leaves)
        self._results = [None if leaf is None else self._named(leaf) for leaf in leaves]
        self._rebindings = [rebinding for write in writes if (rebinding := self._rebinding(write)) is not None]
        self._bumps = [
            (root, moved)
            for root in trace.roots.values()
            if root.initial is not None and (moved := root.initial.counter()[0] - root.version)
        ]
        self._sent = [
            (tensor, sent)
            for tensor, array, _ in trace.others.values()
            if tensor._snapshot is not None and type(array) is np.ndarray
            if (sent := value_of_leaf(tensor._snapshot[2])) is not array
        ]
        """Of `Trace.others`, what was sent: NumPy may write to a tensor's array, too, which no version tells."""
        self._captured: Sequence[Constant] = ()
        """Arrays of user code as the latest call sent them."""
        self._build(code)

    # ---- made once --------------------------------------------------------------------------------------------------

    def _build(self, code: UserCode) -> None:
        records = list(self._inputs.log.records)
        returned = self._wanted(self._results)
        wanted = self._wanted([one for rebinding in self._rebindings for one in (rebinding.value, rebinding.first)])
        unread: dict[int, set[int]] = {}
        for key, maker in self._makers.items():
            read = returned.get(key, set())
            large = {index for index, entry in enumerate(maker.outputs) if entry.bytes > MAX_INLINED_BYTES}
            unread[key] = large - read
            wanted[key] = wanted.get(key, set()) | read
        held = [(record.live, record.live_others) for record in records]
        try:
            for record in records:
                record.live, record.live_others = 0, None
                for index in wanted.get(id(record), ()):
                    record.hold(index)
            needed = needed_records(records, next(_stamps))
            with looking_in_program_order(self._inputs.log, needed, code.ordered) as needed:
                self._values_known = code.call_costs.values_known()
                hints = code.call_costs.hints(needed)
                built = build(-1, needed, code.requests if needed else {}, hints=hints, unread=unread)
        finally:
            for record, before in zip(records, held, strict=True):
                record.live, record.live_others = before
        self._graph, self._encoded, self._key = built.submission.graph, built.submission.encoded, built.submission.key
        self._call_costs = code.call_costs
        self.called = replayed_calls(needed)
        """By node of a user Function, what is known of the time of the call."""
        paths = built.submission.paths
        self._paths = RecordedPaths(paths, self._trace.began) if paths else None
        self.sites = [record.site for record in needed]
        self.stories = {index: record.story for index, record in enumerate(needed) if record.story}
        self.learns = {index: record for index, record in enumerate(needed) if record.learn is not None}
        self._sources = [self._source(source) for source in built.sources]
        self._bases = {key: maker.base for key, maker in self._makers.items()}

    def _wanted(self, named: Sequence[Any]) -> dict[int, set[int]]:
        """Return, by id of a record, its outputs that are among the values named."""
        wanted: dict[int, set[int]] = {}
        for what in named:
            output = what.value if type(what) is _NewTensor else what
            if type(output) is _GraphOutput:
                wanted.setdefault(output.maker, set()).add(output.index)
        return wanted

    def _source(self, source: Any) -> Any:
        """Return where an external comes from: a root, a draw, an array of user code, or `SuppliedExternal`."""
        constant = isinstance(source, Constant)
        origin = self._trace.origins.get(id(source) if constant else (id(source[0]), source[1]))
        if type(origin) is Root:
            origin.spec = source.spec if constant else source[0].outputs[source[1]]
        if origin is not None:
            return origin
        if constant:
            return SuppliedExternal(source.value)
        self._trace.interrupt(
            f"it reads a value that was recorded before it (shape {source[0].outputs[source[1]].shape}), by a way "
            "that cannot be followed: pass the tensor as an argument, or let the function name it as a variable or "
            "an attribute"
        )
        return SuppliedExternal(None)

    def _check_apart(self, leaves: Sequence[Tensor | None]) -> None:
        """Interrupt where a change of a result in place would reach another tensor: what is replayed has memory of its
        own."""
        trace = self._trace
        made = {id(leaf): leaf for leaf in leaves if leaf is not None and id(leaf) not in trace.roots}
        taken = {id(owner_of(root.initial)) for root in trace.roots.values() if root.initial is not None}
        for leaf in made.values():
            if leaf._requires_grad:
                continue  # a new tensor is returned in its place
            owner = id(owner_of(leaf))
            if owner in taken:
                trace.interrupt("a result shares memory with another one, or with a tensor that was there before")
            taken.add(owner)

    def _named(self, tensor: Tensor) -> Any:
        """Return how a tensor is named: a root, or a new one around what the graph makes."""
        root = self._trace.roots.get(id(tensor))
        if root is not None:
            return root
        self._tensors.append(tensor)  # so that its id stays its own
        return _NewTensor(id(tensor), self._value(value_of(tensor)))

    def _value(self, data: Any) -> Any:
        """Return how a value is named."""
        if type(data) is not Pending:
            return data
        origin = self._trace.origins.get(key_of(data))
        if type(origin) in (Root, RandomDraw):
            return origin
        if type(data.record) is LeafRecord:
            return data.record.constant.value
        record = cast(NodeRecord, data.record)
        if record.run >= 0:
            self._trace.interrupt(
                "it returns or keeps a value that was made before the call, and that it does not reach by its "
                "arguments, variables or attributes"
            )
            return None
        self._makers[id(record)] = record
        return _GraphOutput(id(record), data.index, data.defined, data.assumed)

    def _rebinding(self, write: Write) -> _VariableRebinding | None:
        rebinding, attribute, old, new = write
        root = self._trace.roots.get(id(rebinding))
        if isinstance(rebinding, Tensor) and root is None:
            return None  # a tensor of the function's own
        if root is not None and attribute == "_data":
            self._written.append(root)
        if type(new) is LostData or (root is not None and root.shares and attribute == "_data"):
            self._trace.interrupt("a tensor is changed in place of which others are views or aliases")
        if isinstance(new, Tensor) and new.grad_fn is not None:
            self._trace.interrupt("a gradient with a history (create_graph=True) is left in .grad")
        owner: Any = rebinding if root is None else root
        first = _NOTHING
        if root is not None and attribute == "_grad" and old is not root.grad:
            first = None if old is None else self._named(old)
        value = self._named(new) if isinstance(new, Tensor) else self._value(new)
        return _VariableRebinding(owner, attribute, first, value)

    # ---- done again -------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Let go of what only the call itself needed."""
        self._trace.forget()
        self._tensors.clear()
        log = self._inputs.log
        self._makers = {key: NodeRecord(log, m.work, (), m.outputs, m.site) for key, m in self._makers.items()}

    def leaves(self, args: Sequence[Tensor], known: dict[int, Pending]) -> Leaves | None:
        """Return what each root is in this call; None if roots are not as they were."""
        found: dict[Root, Pending] = {}
        if aliases_among(args, self._trace.reached) != self._trace.aliases:
            return None
        for root in self._trace.roots.values():
            tensor = root.now(args)
            if root.of_grad and root.spec is None and root.same_as is None and not root.required:
                continue  # a gradient that is not read
            if not root.is_alike(tensor):
                return None
            if root.spec is not None:
                assert tensor is not None
                pending = known.get(id(tensor)) or self._inputs.leaf(tensor)
                if pending.spec is not root.spec:
                    return None
                found[root] = pending
            if root.same_as in found and not _is_same(found[root.same_as], root.now(args), self._inputs, known):
                return None
        for root in self._written:
            tensor = root.now(args)
            if tensor is None or shares_memory(tensor):
                return None
        for tensor, array, version in self._trace.others.values():
            if tensor._data is not array or tensor.counter()[0] != version:
                return None
        if not all([_is_as_sent(tensor, sent) for tensor, sent in self._sent]):
            return None
        return found

    def reads_recorded(self, leaves: Leaves) -> bool:
        """Tell whether a call reads what is recorded and not yet submitted."""
        return any(type(value.record) is NodeRecord and value.record.run < 0 for value in leaves.values())

    def submission(self, number: int, leaves: Leaves) -> tuple[GraphSubmission, list[Any]]:
        """Return the submission as run `number`, and what was drawn for it."""
        began, now = self._trace.began, StreamPositions()
        draws = [now.drawn(again, began) for again in self._trace.draws]
        now.advance(began, self._ended)
        externals: list[External] = []
        captured: list[Constant] = []
        for source in self._sources:
            if type(source) is SuppliedExternal:
                externals.append(source)
            elif type(source) is Root:
                externals.append(_external(leaves[source]))
            elif type(source) is RandomDraw:
                externals.append(SuppliedExternal(_fixed(draws[source.number])))
            else:
                captured.append(self._inputs.snapshots.of(base_of(source)))
                externals.append(SuppliedExternal(captured[-1].value))
        self._hint()
        self._captured = captured  # those of the call before are let go: what has stayed the same is sent once
        paths = self._paths.moved(now) if self._paths is not None else {}
        return GraphSubmission(number, self._graph, self._encoded, self._key, tuple(externals), paths), draws

    def _hint(self) -> None:
        """Enter the cost hints into the graph, anew where the values are others by which Functions are told apart: most
        are seen when the first replays have been measured."""
        if self._values_known is (known := self._call_costs.values_known()):
            return
        self._values_known = known
        hints = self._call_costs.replayed_hints(self.called)
        if hints != self._graph.hints:
            self._graph = self._graph._replace(hints=hints)
            self._encoded = encode_graph(self._graph)
            self._key = structural_hash(self._encoded)

    def bind(
        self, number: int, leaves: Leaves, args: Sequence[Tensor], draws: list[Any]
    ) -> tuple[list[NodeRecord], Any]:
        """Rebind the variables to outputs of run `number`; return the records of these, and the function's result."""
        makers: dict[int, NodeRecord] = {}
        for key, like in self._makers.items():
            made = makers[key] = NodeRecord(self._inputs.log, like.work, (), like.outputs, like.site)
            made.run, made.base = number, self._bases[key]
        outputs: dict[tuple[int, int], Pending] = {}
        fresh: dict[int, Tensor] = {}

        def data(value: Any) -> Any:
            if type(value) is _GraphOutput:
                place = (value.maker, value.index)
                if place not in outputs:
                    outputs[place] = makers[value.maker].output(value.index, value.defined, value.assumed)
                return outputs[place]
            if type(value) is Root:
                return leaves[value]
            return np.asarray(draws[value.number]) if type(value) is RandomDraw else value

        def tensor(value: Any) -> Any:
            if type(value) is Root:
                return value.now(args)
            if type(value) is not _NewTensor:
                return data(value)
            if value.number not in fresh:
                fresh[value.number] = Tensor.made(data(value.value))
            return fresh[value.number]

        results = [tensor(value) for value in self._results]
        owners = [
            rebinding.owner.now(args) if type(rebinding.owner) is Root else rebinding.owner
            for rebinding in self._rebindings
        ]
        moved = [(root.now(args), by) for root, by in self._bumps]
        recorder = self._inputs.log.recorder
        for rebinding, owner in zip(self._rebindings, owners, strict=True):
            if rebinding.attribute == "_data" and owner is not None and owner._shares_memory:
                recorder.note_change(owner)
            if rebinding.first is not _NOTHING:
                recorder.write(owner, rebinding.attribute, tensor(rebinding.first))
            recorder.write(owner, rebinding.attribute, tensor(rebinding.value))
        for changed, by in moved:
            for _ in range(by if changed is not None else 0):
                bump(cast(Tensor, changed).counter())
        return list(makers.values()), unflatten(self._structure, results)


Leaves: TypeAlias = "dict[Root, Pending]"


def _is_as_sent(tensor: Tensor, sent: np.ndarray[Any, Any]) -> bool:
    """Tell whether a tensor's array still is what was sent of it."""
    return not tensor._shares_memory or is_still(sent, tensor._data) or sent.tobytes() == tensor._data.tobytes()


def _is_same(value: Pending, tensor: Tensor | None, inputs: InputRecorder, known: dict[int, Pending]) -> bool:
    """Tell whether a tensor still has the value of another one."""
    if tensor is None:
        return False
    other = known.get(id(tensor)) or inputs.leaf(tensor)
    one, two = value.record, other.record
    if type(one) is LeafRecord and type(two) is LeafRecord:
        return one.constant is two.constant
    return one is two and value.index == other.index


def _external(value: Pending) -> External:
    record = value.record
    if type(record) is LeafRecord:
        return SuppliedExternal(record.constant.value)
    made = cast(NodeRecord, record)
    return KeptExternal(made.run, made.base + value.index)


def _fixed(array: Any) -> Any:
    """Return an array that nobody will write to."""
    array = np.asarray(array)
    array.flags.writeable = False
    return array
