"""Nodes of the backward graph: the base class, built-in ops, and the accumulator of a leaf.

Rules of this file: a node knows how to turn the gradients of its outputs into those of its inputs, and what it
keeps until then. Order, sums and hooks are the engine's. A node meets gradients in three forms and never asks why:
arrays, `Pending` values (then a recorder is given), and tensors (then the result is to be differentiated again).
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from raygrad.errors import AutogradError

from .derive import Meta, OpContext, vjp_arrays, vjp_tensors
from .devices import Device
from .devices.serving import CPU
from .hooks import ClientHook, HookDict, RemovableHandle
from .modes import state
from .recording import Data, Pending, Record, Recorder, settled
from .versions import exchanged, was_changed, was_detached

if TYPE_CHECKING:
    from .registry import Derivative, Op
    from .tensor import Tensor

Edge = tuple["Node | None", int]
"""(producer, which of its outputs); (None, 0) for a tensor that does not require grad."""

NO_EDGE: Edge = (None, 0)

next_sequence = itertools.count(1).__next__

ACCUMULATOR_RANK = 1 << 62
"""Accumulators rank above all other nodes: they run as soon as they are ready (EN-20)."""

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


class OutputMeta(NamedTuple):
    """What is known of an output of a node, which is an input of its backward."""

    shape: tuple[int, ...]
    dtype: Any
    device: Device = CPU


_NO_DTYPE = np.dtype("float32")
"""Of what has no gradient, as PyTorch says it."""


class Node:
    """A node of the backward graph. A Function's node is also the `ctx` on which users set attributes of their own, so
    what belongs to the engine starts with an underscore.

    Attributes:
        _edges: per input of the forward computation, where its gradient goes; None for what is no tensor.
        _metas: per output (shape, dtype); None for outputs that carry no gradient.
        _sequence: the creation number; higher ones run earlier among ready nodes.
    """

    _edges: Sequence[Edge | None] = ()
    _metas: Sequence[Meta | None] = ()
    _sequence: int = 0
    _hooked: bool = False
    """Whether it has any of the four kinds below."""
    _pre_hooks: HookDict | None = None
    _post_hooks: HookDict | None = None
    _tensor_hooks: dict[int, HookDict] | None = None
    _retained: dict[int, weakref.ref[Tensor]] | None = None
    _notes: dict[Any, Any] | None = None
    _needed: Sequence[bool] | None = None
    """While a pass to some inputs only runs the node: per input, whether its gradient is needed."""

    def name(self) -> str:
        """Return the node's name, as error messages show it."""
        return type(self).__name__

    def _title(self) -> str:
        """Return the name also where a user set an attribute `name` on the context."""
        return type(self).name(self)

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """One (node, output number) per tensor input; (None, 0) where no gradient is wanted."""
        return tuple([_shown(edge) for edge in self._edges if edge is not None])

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes on this node; anomaly detection keeps there where it was made."""
        if self._notes is None:
            self._notes = {}
        return self._notes

    @property
    def _input_metadata(self) -> tuple[OutputMeta, ...]:
        """What a gradient of each output has to be (ND-07); a placeholder for outputs without derivative."""
        return tuple(
            OutputMeta((), _NO_DTYPE) if meta is None else OutputMeta(*meta, self._device(number))
            for number, meta in enumerate(self._metas)
        )

    def _sequence_nr(self) -> int:
        """Return the creation number (ND-06)."""
        return self._sequence

    def _set_sequence_nr(self, number: int) -> None:
        """Change the creation number: among ready nodes, those with a higher one run earlier."""
        self._sequence = number

    def register_hook(self, hook: Callable[..., Any], *, client: bool = False) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` after the node has run; a returned tuple replaces `grad_inputs`.

        `grad_inputs` has an entry per tensor that the node was applied to, None where no gradient is wanted. `client`:
        see `Tensor.register_hook`.
        """
        if self._post_hooks is None:
            self._post_hooks = HookDict()
            self._hooked = True
        return RemovableHandle(self._post_hooks, hook_for(hook, "post", client))

    def register_prehook(self, hook: Callable[..., Any], *, client: bool = False) -> RemovableHandle:
        """Call `hook(grad_outputs)` before the node runs; a returned tuple replaces `grad_outputs`. `client`: see
        `Tensor.register_hook`."""
        if self._pre_hooks is None:
            self._pre_hooks = HookDict()
            self._hooked = True
        return RemovableHandle(self._pre_hooks, hook_for(hook, "pre", client))

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        """Return the gradients of the inputs, aligned with `edges`, given those of the outputs."""
        raise NotImplementedError

    def _run_on_arrays(self, grads: list[Data | None]) -> Sequence[Data | None]:
        """Return what `_run` returns where gradients are arrays and all are needed: nearly always."""
        return self._run(grads, False, None)

    def _run_recorded(self, grads: list[Data | None], recorder: Recorder) -> Sequence[Data | None]:
        """Return what `_run` returns where gradients are recorded and all are needed, and nobody watches for anomalies:
        nearly always."""
        return self._run(grads, False, recorder)

    def _device(self, number: int) -> Device:
        """Return the device of an output, on which its gradient is to be."""
        return CPU

    def _release(self) -> None:
        """Let go of what was saved for backward."""

    def _holds(self) -> bool:
        """Tell whether `_release` would let go of anything."""
        return False

    def _recorder_of(self) -> Recorder | None:
        """Return the recorder of the session that the node belongs to, if any."""
        return None

    def _input_metas(self) -> Sequence[Meta | None]:
        """Return (shape, dtype) per input, None for what is no tensor or not known."""
        return (None,) * len(self._edges)

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle '{self._title()}' object: a node is a place in this process's graph")

    def __repr__(self) -> str:
        return f"<{self._title()} object at {id(self):#x}>"


def hook_for(hook: Callable[..., Any], kind: str, client: bool = False) -> Callable[..., Any]:
    """Return `hook` as the ambient recorder wants to keep it (checked early that it can travel), or as it is; marked
    if it is to be called at the `client`."""
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
    if client:
        return ClientHook(hook)
    recorder = state.here.recorder
    return hook if recorder is None else recorder.check_hook(kind, hook)


class OpNode(Node):
    """A built-in op that was applied to tensors. It is what its rule is given as `ctx` where gradients are arrays.

    Attributes:
        rule: the derivative, None if there is none.
        params: the op's static parameters.
        needs_input_grad: per operand, whether its gradient is wanted.
        inputs: per operand (shape, dtype), None for numbers.
        saved_tensors: the residuals in the order that the rule declares; None once they were freed.
        versions: beside them, the version counter of each and what it showed; None for what is no tensor.
    """

    op: Op
    rule: Derivative | None
    params: tuple[Any, ...]
    needs_input_grad: Sequence[bool]
    inputs: Sequence[Meta | None]
    saved_tensors: tuple[Data, ...] | None
    versions: tuple[tuple[list[int], int] | None, ...]
    _origin: Record | None = None
    """The record of the op in its session, if it was recorded."""
    tangents: Sequence[Any] | None = None
    """Per residual, the tangents that it carried, if any did."""
    _converts: bool = False
    """It computed with operands in another dtype than they were given in."""

    @property
    def outputs(self) -> Sequence[Meta | None]:
        """Per output (shape, dtype)."""
        return self._metas

    def name(self) -> str:
        """Return the node's name, in PyTorch's form."""
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward0"

    def needs(self) -> Sequence[bool]:
        """Return, per operand, whether its gradient is wanted, and needed by the pass."""
        return self.needs_input_grad if self._needed is None else self._needed

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if not self._ready(grads):
            return [None] * len(self._edges)
        rule, saved = cast("Derivative", self.rule), cast("tuple[Data, ...]", self.saved_tensors)
        if recorder is not None and not create_graph:
            return recorder.op_vjp(self, saved, grads)
        residuals = self._residual_tensors(saved) if create_graph else saved
        context = OpContext(residuals, self.params, self.needs(), self.inputs, self._metas)  # type: ignore[arg-type]
        return (vjp_tensors if create_graph else vjp_arrays)(self.op, rule, context, grads)

    def _run_on_arrays(self, grads: list[Data | None]) -> Sequence[Data | None]:
        if not self._ready(grads):
            return [None] * len(self._edges)
        return vjp_arrays(self.op, cast("Derivative", self.rule), self, grads)

    def _run_recorded(self, grads: list[Data | None], recorder: Recorder) -> Sequence[Data | None]:
        saved = self.saved_tensors
        if saved is not None and self.rule is not None:
            for entry in self.versions:
                if entry is not None and entry[0][0] != entry[1]:
                    break  # what is saved may be something else once that was looked into
            else:
                again = recorder.vjp_again(self, saved, grads)
                if again is not None:
                    return again
        return self._run(grads, False, recorder)

    def _ready(self, grads: Sequence[Data | None]) -> bool:
        """Tell whether a gradient arrived at any output, after checking that the rule can run.

        Raises:
            MissingDerivative: there is no rule.
            AutogradError: what was saved for it was freed, or changed in place since.
        """
        if self.rule is None:
            meta = self._metas[0]
            raise self.op.missing(self._device(0).type, meta[1] if meta else "?")
        if self.saved_tensors is None:
            raise AutogradError(FREED)
        for entry in self.versions:
            if entry is not None and entry[0][0] != entry[1]:
                self._check_versions()
        for grad in grads:
            if grad is not None:
                break
        else:
            return False
        return True

    def _release(self) -> None:
        for data in self.saved_tensors or ():
            if type(data) is not tuple and data is not None:  # of what keeps no value nothing is freed
                self.saved_tensors = None
                return

    def _holds(self) -> bool:
        return bool(self.saved_tensors)

    def keep_in(self, slot: int, value: Data, version: tuple[list[int], int] | None) -> None:
        """Keep something else in a slot, with the version counter that it is checked by."""
        saved, versions = self.saved_tensors, self.versions
        assert saved is not None
        self.saved_tensors = (*saved[:slot], value, *saved[slot + 1 :])
        self.versions = (*versions[:slot], version, *versions[slot + 1 :])

    def _recorder_of(self) -> Recorder | None:
        return None if self._origin is None else self._origin.recorder

    def __call__(self, *grads: Tensor | None) -> Any:
        """Return the gradients of the inputs, given those of the outputs; nothing is freed and no hook runs.

        Returns:
            One tensor or None per tensor input; not in a tuple if there is one input only.
        """
        return call_node(self, grads)

    def _input_metas(self) -> Sequence[Meta | None]:
        return self.inputs

    def keep_old_value(self, old: Data, counter: list[int], copy: Callable[[Data], Data]) -> None:
        """Keep what `copy` makes of a value that is about to be replaced by this op's result in place (a copy, or a
        pending value itself), where it was saved as what is changed; as another operand (`x.mul_(x)`) it gets stale."""
        if self.saved_tensors is None or self.rule is None:
            return
        for slot, entry in enumerate(self.versions):
            if entry is not None and entry[0] is counter and self.rule.saves[slot] == 0:
                held = self.saved_tensors[slot]
                self.keep_in(slot, copy(old) if held is old else held, None)

    def _check_versions(self) -> None:
        for slot, entry in enumerate(self.versions):
            if entry is not None and entry[0][0] != entry[1]:
                self.check_version(slot, *entry)
                self._exchange(slot, entry)

    def _exchange(self, slot: int, version: tuple[list[int], int]) -> None:
        """Keep in a slot what the operand that was saved there holds now: its data may have been exchanged (CX-14)."""
        assert self.saved_tensors is not None
        assert self.rule is not None
        held, position = self.saved_tensors[slot], self.rule.saves[slot]
        edge = (self, -1 - position) if position < 0 else self._edges[position] or NO_EDGE
        data = exchanged(version[0], held, edge, output=position < 0)
        if data is not held:
            if type(data) is Pending:
                data.record.claimed(data.index)
            self.keep_in(slot, data, version)

    def check_version(self, slot: int, counter: list[int], version: int) -> None:
        """Check that what stands in a slot, saved at a version of a counter, is as it was then.

        Raises:
            AutogradError: it was changed in place (CX-13), or detached in place, being an operand (CX-32).
        """
        assert self.rule is not None
        assert self.saved_tensors is not None
        position, data = self.rule.saves[slot], self.saved_tensors[slot]
        edge = (self, -1 - position) if position < 0 else self._edges[position] or NO_EDGE
        if was_changed(counter, version):
            raise AutogradError(stale_message(stale_value(data, edge, self), counter[0], version))
        if position < 0:
            return
        if was_detached(counter, *edge) and position not in self._detachable():
            raise AutogradError(
                "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(): operand "
                f"{position} of {self._title()}, a {data.dtype} tensor of shape {list(data.shape)}. Use the "
                "out-of-place .detach() instead"
            )

    def _detachable(self) -> Sequence[int]:
        """Return the operands that may be detached in place after they were saved."""
        assert self.rule is not None
        of = self.rule.config.detachable
        return () if of is None else of(self.inputs)

    def _residual_tensors(self, saved: Sequence[Data]) -> list[Any]:
        """Return the residuals as tensors with their place in the graph, and their tangents."""
        from .promotion import as_computed
        from .tensor import Tensor

        assert self.rule is not None
        out: list[Any] = []
        for slot, (position, data) in enumerate(zip(self.rule.saves, saved, strict=True)):
            held = self.tangents[slot] if self.tangents is not None else None
            if held and data is not None:
                edge = (self, -1 - position) if position < 0 else self._edges[position] or NO_EDGE
                edge = as_computed(data, edge) if self._converts else edge
                tensor = Tensor.made(data, edge[0], edge[1])
                tensor._tangents = held
                out.append(tensor)
                continue
            if data is None:
                out.append(None)
                continue
            if position < 0:
                carries = data.dtype.kind in "fc"
                out.append(Tensor.made(data, self, -1 - position) if carries else Tensor.made(data))
                continue
            edge = self._edges[position]
            if edge is None:
                out.append(data)
                continue
            if isinstance(edge[0], AccumulateGrad):
                out.append(edge[0].variable)
                continue
            out.append(Tensor.made(data, *(as_computed(data, edge) if self._converts else edge)))
            version = self.versions[slot]
            if version is not None:  # what saves it anew is to notice changes, too
                out[-1]._counter = version[0]
        return out


def stale_value(data: Data, made_by: Edge | None, keeper: Node) -> str:
    """Return how the message for a stale saved value names it (CX-13)."""
    what = f"[{data.dtype} {list(data.shape)}], "
    producer = None if made_by is None else made_by[0]
    if producer is not None and not isinstance(producer, AccumulateGrad) and made_by is not None:
        what += f"which is output {made_by[1]} of {producer._title()}, "
    return what + f"saved by {keeper._title()},"


def stale_message(what: str, current: int, expected: int) -> str:
    """Return the message for a saved value that was changed in place."""
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{what} is at version {current}; expected version {expected} instead. Hint: enable anomaly detection to find "
        "the operation that failed to compute its gradient."
    )


def call_node(node: Node, grads: Sequence[Tensor | None]) -> Any:
    """Run a built-in node by hand, in the gradient mode of the caller (ND-08).

    Raises:
        TypeError: not one gradient (or None) per output.
    """
    from .tensor import Tensor

    if len(grads) != len(node._metas):
        raise TypeError(f"expected {len(node._metas)} arguments, got {len(grads)} instead")
    for grad in grads:
        if grad is not None and not isinstance(grad, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected tensors or None as gradients, got {type(grad).__name__}")
    recorder = state.here.recorder or node._recorder_of()
    datas: list[Any] = [
        g if g is None or state.here.grad else g._data if recorder is None else recorder.leaf(g) for g in grads
    ]
    results = over_tensors(node, node._run(datas, state.here.grad, recorder))
    tensors = [Tensor.made(r) if r is not None and not isinstance(r, Tensor) else r for r in results]
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def over_tensors(node: Node, results: Sequence[Any]) -> list[Any]:
    """Return, of gradients per input, those of the inputs that were tensors: what users are shown (ND-09)."""
    if not results:
        return []
    return [result for result, edge in zip(results, node._edges, strict=True) if edge is not None]


def in_slots(node: Node, gradients: Sequence[Any]) -> list[Any]:
    """Return gradients of the tensors among the inputs as one per input: what `over_tensors` takes."""
    given = iter(gradients)
    return [None if edge is None else next(given) for edge in node._edges]


class AccumulateGrad(Node):
    """The accumulator of one leaf: adds what arrives into its `.grad` (ND-04), then tells who asked to know (HK-17)."""

    _sequence = ACCUMULATOR_RANK
    reached = True
    """Whether it takes gradient at all."""

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable
        self._metas = ((variable.shape, variable.dtype),)

    def name(self) -> str:
        """Return what PyTorch calls it, with the namespace of a node that is no function's."""
        return "torch::autograd::AccumulateGrad"

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        (grad,) = grads
        variable = self.variable
        if grad is not None and variable.grad_fn is not None:
            raise AutogradError(
                f"leaf variable has been moved into the graph interior: a tensor of shape {list(variable.shape)} was a "
                "leaf when it was used, and was changed in place since; use the out-of-place operation"
            )
        if grad is not None and variable._requires_grad:  # the flag may have been cleared since
            recording = create_graph and state.here.grad
            data = grad._data if create_graph and not recording else grad  # `.grad` carries no tangents then
            accumulate(variable, data, recording, recorder)
        if variable._after_accumulation is not None:
            for hook in list(variable._after_accumulation.values()):
                if hook(variable) is not None:
                    raise AutogradError(
                        "a hook that runs after a leaf's gradient was accumulated should return None: to change the "
                        "gradient, assign to the leaf's `.grad` in the hook"
                    )
        return ()

    def __call__(self, *grads: Tensor | None) -> Any:
        """Add a gradient to the leaf's `.grad`, as at the end of a pass."""
        return call_node(self, grads)


def _shown(edge: Edge) -> Edge:
    """Return an edge as users see it: that of a view without a place in the graph is none."""
    node = edge[0]
    return NO_EDGE if isinstance(node, AccumulateGrad) and not node.reached else edge


def is_inner(edge: Edge | None) -> bool:
    """Tell whether an edge leads to a producer: not to a leaf's accumulator, nor nowhere."""
    return edge is not None and edge[0] is not None and not isinstance(edge[0], AccumulateGrad)


_LOCKS = [threading.RLock() for _ in range(16)]
"""Passes on several threads may accumulate into one leaf (EN-25); leaves share locks, since one each would cost memory.
What runs under one of these takes no other lock."""

_RECORDED_LOCK = threading.RLock()
"""The same while a pass is recorded: then the recorder's lock is taken under it, and never the other way round."""


def accumulate(
    variable: Tensor, grad: Data, create_graph: bool, recorder: Recorder | None, *, anew: bool = False
) -> None:
    """Add `grad` to `variable.grad`: stored the first time, then added in place, or anew with `create_graph` (EN-07)
    and where a non-leaf retains its gradient.

    The first gradient takes the leaf's axis order (EN-32) and memory of its own (BW-16).
    """
    with _LOCKS[id(variable) >> 4 & 15] if recorder is None else _RECORDED_LOCK:
        _add_to_grad(variable, grad, create_graph, recorder, anew)


def next_value(grad: Tensor, data: Data, recorder: Recorder) -> None:
    """Give a stored gradient its next value in a session, and with it whatever shares its memory."""
    recorder.write(grad, "_data", data)
    if grad._recipe is not None or grad._views is not None:
        from .inplace import renew_views

        renew_views(grad, recorder, False)


def _add_to_grad(variable: Tensor, grad: Data, create_graph: bool, recorder: Recorder | None, anew: bool) -> None:
    from . import ops

    old = variable._grad
    if create_graph:
        if old is not None and settled(old._data) is None:
            old = None
        # a clone: neither the caller's gradient nor another leaf's may share its memory (pending ones are immutable)
        fresh = grad if type(grad._data) is Pending else grad.clone()
        new = variable.made(fresh._data, fresh.grad_fn, fresh.output_nr) if old is None else old + grad
        _set_grad(variable, new, recorder)
        return
    order = variable.axis_order()
    if recorder is not None:
        laid = ops.in_order_data(grad, order, recorder)
        if old is None:
            _set_grad(variable, variable.made(laid), recorder)
        elif anew:
            _set_grad(variable, variable.made(recorder.add(old._data, laid)), recorder)
        else:
            next_value(old, recorder.add(old._data, laid), recorder)
    elif old is None:
        _set_grad(variable, variable.made(ops.copy_in_order(grad, order)), None)
    elif anew:
        _set_grad(variable, variable.made(ops.add(old.read(), grad)), None)
    else:
        old.add_in_place(grad)


def _set_grad(variable: Tensor, value: Tensor, recorder: Recorder | None) -> None:
    if recorder is None:
        variable._grad = value
    else:
        recorder.write(variable, "_grad", value)
