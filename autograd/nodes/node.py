"""Base class of nodes of the backward graph: edges, metadata, hooks, and the methods by which the engine runs them.

A node turns gradients of its outputs into gradients of its inputs; order, sums and calls of hooks are the engine's.
Gradients are arrays, `Pending` values (with a recorder), or tensors (if the result is differentiated again). Kinds of
nodes are in `op_node`, `accumulator` and, for Functions, `functions/context.py`.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from raygrad.tracebacks import show_site

from ..core.hooks import ClientHook, HookDict, RemovableHandle
from ..core.modes import state
from ..core.recorder import Data, Recorder
from ..devices import Device
from ..devices.serving import CPU
from ..registry.vjp_rules import Meta
from ..tensor.tensor import Tensor

Edge = tuple["Node | None", int]
"""(producer, which of its outputs); (None, 0) for a tensor that does not require grad."""

NO_EDGE: Edge = (None, 0)

next_sequence = itertools.count(1).__next__

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
    _applied_in: CodeType | None = None
    _applied_at: int = 0
    """Where the user's program applied it, of a Function: the code, and the instruction in it. They are no tuple, which
    takes longer to make than two attributes."""
    _reached: bool = True
    """Whether it takes gradient at all."""
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
        return RemovableHandle(self._post_hooks, prepare_hook(hook, "post", client))

    def register_prehook(self, hook: Callable[..., Any], *, client: bool = False) -> RemovableHandle:
        """Call `hook(grad_outputs)` before the node runs; a returned tuple replaces `grad_outputs`. `client`: see
        `Tensor.register_hook`."""
        if self._pre_hooks is None:
            self._pre_hooks = HookDict()
            self._hooked = True
        return RemovableHandle(self._pre_hooks, prepare_hook(hook, "pre", client))

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
        """Free what was saved for backward."""

    def _holds(self) -> bool:
        """Tell whether `_release` would free anything."""
        return False

    def _tell_site(self, error: BaseException) -> None:
        """Let an error that it raised in a pass tell where the user's program applied it, if that is known."""
        if self._applied_in is not None:
            show_site(error, (self._applied_in, self._applied_at), self._title())

    def _applied_with(self, node: Node) -> None:
        """Be of the same line of the user's program as another node."""
        self._applied_in, self._applied_at = node._applied_in, node._applied_at

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


def prepare_hook(hook: Callable[..., Any], kind: str, client: bool = False) -> Callable[..., Any]:
    """Return `hook` as nodes keep it: marked if the `client` calls it, else checked by the ambient recorder.

    The recorder raises early for a hook that cannot be shipped.
    """
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
    if client:
        return ClientHook(hook)
    recorder = state.here.recorder
    return hook if recorder is None else recorder.check_hook(kind, hook)


def call_node(node: Node, grads: Sequence[Tensor | None]) -> Any:
    """Run a built-in node by hand, in the gradient mode of the caller (ND-08).

    Raises:
        TypeError: not one gradient (or None) per output.
    """
    if len(grads) != len(node._metas):
        raise TypeError(f"expected {len(node._metas)} arguments, got {len(grads)} instead")
    for grad in grads:
        if grad is not None and not isinstance(grad, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected tensors or None as gradients, got {type(grad).__name__}")
    recorder = state.here.recorder or node._recorder_of()
    datas: list[Any] = [
        g if g is None or state.here.grad else g._data if recorder is None else recorder.leaf(g) for g in grads
    ]
    results = for_tensor_inputs(node, node._run(datas, state.here.grad, recorder))
    tensors = [Tensor.made(r) if r is not None and not isinstance(r, Tensor) else r for r in results]
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def for_tensor_inputs(node: Node, results: Sequence[Any]) -> list[Any]:
    """Return, from gradients per input, those of tensor inputs, as users see them (ND-09)."""
    if not results:
        return []
    return [result for result, edge in zip(results, node._edges, strict=True) if edge is not None]


def for_all_inputs(node: Node, gradients: Sequence[Any]) -> list[Any]:
    """Return one gradient per input from those of the tensor inputs: the inverse of `for_tensor_inputs`."""
    given = iter(gradients)
    return [None if edge is None else next(given) for edge in node._edges]


def _shown(edge: Edge) -> Edge:
    """Return an edge as users see it: that of a view without a place in the graph is none."""
    node = edge[0]
    return NO_EDGE if node is not None and not node._reached else edge
