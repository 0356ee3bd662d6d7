"""The derivatives of user Functions in a session: nodes that record vjps, of any order (H7).

Rules of this file: the nodes that stand in the client's graph for Functions applied in a session, for vjps recorded
under create_graph, and for Functions that ran before the session. No backward of a user runs here.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raygrad.autograd.derive import Meta
from raygrad.autograd.function import INPUT, OUTPUT, VALUE, Function, FunctionNode
from raygrad.autograd.node import FREED, NO_EDGE, AccumulateGrad, Edge, Node, next_sequence, stale_message
from raygrad.autograd.once import refusing
from raygrad.autograd.recording import Data, Pending, Recorder
from raygrad.autograd.tensor import Tensor
from raygrad.errors import AutogradError, SessionError
from raygrad.proto.graph import ROLE_FUNCTION, VJP
from raygrad.workers.contexts import Context

from .learned import Learning
from .records import CONTEXT, Constant, NodeRecord
from .sites import user_site

if TYPE_CHECKING:
    from .recorder import SessionRecorder


class RecordedFunction(FunctionNode):
    """The node of a Function applied in a session: its backward records a vjp."""

    _recorder: SessionRecorder
    _fn: str
    _site: Any
    _context: Pending | None
    _captured: Sequence[Pending]
    """What the Function captured when it was applied (H16)."""
    _saved_inputs: dict[int, Pending]
    _saved_outputs: dict[int, Pending]
    _versions: dict[int, tuple[list[int], int]]
    _saves: bool
    _freed: bool = False

    @staticmethod
    def of(
        function: type[Function], recorder: SessionRecorder, fn: str, record: NodeRecord, context: Pending | None
    ) -> RecordedFunction:
        """Return a node named after the Function, for an application recorded as `record`."""
        made = _node_classes.get(function)
        if made is None:
            made = _node_classes[function] = type(
                function.__name__ + "Backward", (RecordedFunction,), {"_function": function}
            )
        node: RecordedFunction = made()
        node._recorder = recorder
        node._fn = fn
        node._site = record.site
        node._context = context
        return node

    def _release(self) -> None:
        self._freed = True
        if self._saves:
            self._context = None
            self._saved_inputs = {}
            self._saved_outputs = {}

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if self._context is None:
            raise AutogradError(FREED)
        if self._recorder.closed:
            raise SessionError(f"the session that ran {self.name()} is closed: run backward inside the session")
        for position, (counter, version) in self._versions.items():
            if counter[0] != version:
                raise AutogradError(stale_message(f"argument {position} saved by {self.name()}", counter[0], version))
        if create_graph:
            return self._differentiably(grads)
        items: list[Data | None] = [*grads]
        items.extend(self._saved_inputs.get(i) for i in range(len(self._inputs)))
        items.extend(self._saved_outputs.get(j) for j in range(len(self._metas)))
        wanted = [i for i, edge in enumerate(self._edges) if edge is not None and edge[0] is not None]
        metas = [self._inputs[i] for i in wanted]
        shift = len(self._metas)
        requires = [shift + i for i in wanted] + [shift + len(self._inputs) + j for j in self._saved_outputs]
        results, _ = record_vjp(self, self._context, 1, items, requires, wanted, metas, False, self._freed)
        out: list[Data | None] = [None] * len(self._edges)
        for position, value in zip(wanted, results, strict=True):
            out[position] = value
        return out

    def _differentiably(self, grads: Sequence[Any]) -> list[Any]:
        """Record the vjp as a node that can itself be differentiated; gradients are tensors here (H7)."""
        assert self._context is not None
        items: list[Tensor | None] = [*grads]
        for i in range(len(self._inputs)):
            value = self._saved_inputs.get(i)
            items.append(None if value is None else _at_edge(value, self._edges[i]))
        for j in range(len(self._metas)):
            value = self._saved_outputs.get(j)
            items.append(None if value is None else Tensor.made(value, self, j))
        wanted = [i for i, edge in enumerate(self._edges) if edge is not None and edge[0] is not None]
        return RecordedVjp.run(
            self, self._context, 1, items, wanted, [self._inputs[i] for i in wanted], len(self._edges)
        )


class RecordedVjp(Node):
    """A vjp recorded under create_graph: a node of level `depth`, whose own backward records level `depth + 1`."""

    _base: RecordedFunction
    _context: Pending | None
    _depth: int
    _items: list[Tensor | None]
    _wanted: list[int]
    _results: int

    def name(self) -> str:
        """Return the Function's node name with the order of the derivative."""
        return self._base.name() + "Backward" * self._depth

    @staticmethod
    def run(
        base: RecordedFunction,
        context: Pending,
        depth: int,
        items: list[Tensor | None],
        wanted: list[int],
        metas: list[Meta | None],
        results: int,
    ) -> list[Any]:
        """Record level `depth` and return its `results` gradients as tensors, the wanted ones with a new node."""
        requires = [i for i, item in enumerate(items) if item is not None and item._requires_grad]
        values, flows = record_vjp(
            base,
            context,
            depth,
            [None if t is None else base._recorder.leaf(t) for t in items],
            requires,
            wanted,
            metas,
            True,
        )
        node = RecordedVjp()
        node._base, node._context, node._depth, node._items = base, context, depth, items
        node._wanted, node._results = wanted, results
        node._edges = [None if t is None else t.edge() if t._requires_grad else NO_EDGE for t in items]
        node._metas = [None] * results
        metas_by_result: list[Meta | None] = [None] * results
        for position, meta in zip(wanted, metas, strict=True):
            metas_by_result[position] = meta
        node._metas = metas_by_result
        node._sequence = next_sequence()
        for item in items:
            if item is not None and type(item._data) is Pending:
                item._data.record.claimed(item._data.index)
        out: list[Any] = [None] * results
        for number, (position, value) in enumerate(zip(wanted, values, strict=True)):
            if value is None:
                continue
            if ~number in flows:
                out[position] = refusing(Tensor.made(value), base.name())
            else:
                flowing = number in flows
                out[position] = Tensor.made(value, node if flowing else None, position if flowing else 0)
        return out

    def _input_metas(self) -> Sequence[Meta | None]:
        return [None if t is None else (t.shape, t.dtype) for t in self._items]

    def _release(self) -> None:
        self._context = None
        self._items = []

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if self._context is None:
            raise AutogradError(FREED)
        owner = self._base._recorder
        wanted = [i for i, edge in enumerate(self._edges) if edge is not None and edge[0] is not None]
        metas = [self._input_metas()[i] for i in wanted]
        if create_graph:
            return RecordedVjp.run(
                self._base, self._context, self._depth + 1, [*grads, *self._items], wanted, metas, len(self._items)
            )
        items = [*grads, *(None if t is None else owner.leaf(t) for t in self._items)]
        shift = len(grads)
        requires = [shift + i for i, t in enumerate(self._items) if t is not None and t._requires_grad]
        values, _ = record_vjp(self._base, self._context, self._depth + 1, items, requires, wanted, metas, False)
        out: list[Data | None] = [None] * len(self._edges)
        for position, value in zip(wanted, values, strict=True):
            out[position] = value
        return out


_node_classes: dict[type[Function], type[RecordedFunction]] = {}


def record_vjp(
    base: RecordedFunction,
    context: Pending,
    depth: int,
    items: Sequence[Data | None],
    requires: Sequence[int],
    wanted: Sequence[int],
    metas: Sequence[Meta | None],
    differentiate: bool,
    freed: bool = False,
) -> tuple[list[Pending | None], frozenset[int]]:
    """Record level `depth` of a Function's derivatives.

    Returns:
        One pending gradient per wanted position (None where known to be undefined), and the numbers of those that
        require grad (~number where its derivative is refused); the latter is learned by running when `differentiate`
        (H7).
    """
    recorder = base._recorder
    with recorder.lock:
        sources = [recorder.source(context), *(recorder.source(item) for item in items)]
        sources.extend([recorder.source(value) for value in base._captured])
        present = tuple(None if i is None else (i.shape, i.dtype.char) for i in items)
        key = ("vjp", base._fn, depth, present, tuple(requires), tuple(wanted), differentiate)
        outputs = [recorder.plain(meta) for meta in metas]  # type: ignore[arg-type]
        known = recorder.session.undefined.get(key)
        flags = (int(differentiate), int(freed), known if differentiate else None)
        meta = (len(items), len(base._inputs), len(base._metas), tuple(wanted), tuple(requires), *flags)
        made = NodeRecord(recorder, ROLE_FUNCTION, base._fn, (VJP,) * depth, sources, outputs, meta, base._site)
        made.effects = True
        made.near = recorder.source(context)
        recorder.add_record(made)
        learning = None
        if known is None or not differentiate:
            learning = made.learn = Learning(key)
        results: list[Pending | None] = [
            made.output(i, None, known is not None and i not in known[0]) for i in range(len(outputs))
        ]
        if differentiate and known is None:
            assert learning is not None
            recorder.session.submit()
            recorder.session.wait_for(made, lambda: learning.undefined is not None)
            known = learning.undefined
        if not differentiate:
            return results, frozenset()
        assert known is not None
        for i, result in enumerate(results):
            if i in known[0]:
                results[i] = None
            elif result is not None:
                result.defined = True
        return results, frozenset(known[1])


def _at_edge(value: Pending, edge: Edge | None) -> Tensor:
    """Return a saved input as a tensor in its place in the graph."""
    if edge is None or edge[0] is None:
        return Tensor.made(value)
    if isinstance(edge[0], AccumulateGrad):
        return edge[0].variable
    return Tensor.made(value, edge[0], edge[1])


def vjp_of_eager(recorder: SessionRecorder, node: Any, grads: Sequence[Data | None]) -> list[Data | None]:
    """Record the backward of a Function that was applied outside the session: its context goes along as a value."""
    if node._saved is None:
        raise AutogradError(FREED)
    node.saved_tensors  # noqa: B018 - raises when something saved was changed in place
    shipped = recorder.code(node._function)
    context = Constant(Context(_without_graph(node)), CONTEXT)
    items: list[Data | None] = [*grads]
    saved = {(slot.kind, slot.position): slot for slot in node._saved if slot is not None and slot.kind is not VALUE}
    for kind, count in ((INPUT, len(node._inputs)), (OUTPUT, len(node._metas))):
        for position in range(count):
            slot = saved.get((kind, position))
            if slot is None:
                items.append(None)
            else:
                items.append(slot.value if kind is OUTPUT else recorder.leaf(slot.value))
    wanted = [i for i, edge in enumerate(node._edges) if edge is not None and edge[0] is not None]
    with recorder.lock:
        sources = [context, *(recorder.source(item) for item in [*items, *recorder.captured(shipped)])]
        outputs = [recorder.plain(node._inputs[i]) for i in wanted]
        requires = tuple(len(node._metas) + i for i in wanted)
        meta = (len(items), len(node._inputs), len(node._metas), tuple(wanted), requires, 0, 0, None)
        made = NodeRecord(
            recorder, ROLE_FUNCTION, "@" + shipped.fingerprint, (VJP,), sources, outputs, meta, user_site()
        )
        made.effects = True
        recorder.add_record(made)
    out: list[Data | None] = [None] * len(node._edges)
    for number, position in enumerate(wanted):
        out[position] = made.output(number, None)
    return out


def _without_graph(node: Any) -> FunctionNode:
    """Return a copy of an eager context that holds no tensors of the client's graph: workers get data only."""
    clone: FunctionNode = copy.copy(node)
    packed = Context(clone).packed()
    return Context(packed=packed).live(node._function)
