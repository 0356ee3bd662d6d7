"""The engine: one traversal for eager passes, recorded passes and passes that are to be differentiated again.

Rules of this file: order (EN-19, EN-20), sums (H19), captures and hooks (HK-05 to HK-08), freeing (EN-10). What a
gradient is made of (an array, a `Pending`, a tensor) is the nodes' affair. Nothing here recurses: deep graphs are
walked with explicit stacks (ND-16).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from raygrad.errors import AutogradError

from .derive import Meta, balanced_sum
from .modes import state
from .node import AccumulateGrad, Edge, Node, accumulate
from .recording import Data, Pending, Recorder
from .tensor import Tensor

if TYPE_CHECKING:
    TensorOrTensors = Tensor | Sequence[Tensor]


def backward(
    tensors: TensorOrTensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into the `.grad` of the leaves, or of `inputs` only.

    Args:
        tensors: the roots.
        grad_tensors: their gradients; None for a root with one element means one.
        retain_graph: keep what was saved for another pass; by default as `create_graph`.
        create_graph: record the pass itself, so that its results can be differentiated.
        inputs: accumulate only into these.

    Raises:
        RuntimeError: a root that does not require grad, a gradient of the wrong shape, freed buffers.
    """
    roots = _as_tuple(tensors)
    grads = _grads_of(grad_tensors, len(roots))
    edges: list[Edge] | None = None
    if inputs is not None:
        wanted = _wanted(inputs, "backward")
        edges = [tensor.edge() for tensor in wanted]
        for tensor in wanted:
            tensor.retain_grad()  # how a non-leaf among them accumulates (EN-12)
    task = _Pass(roots, retain_graph, create_graph)
    task.run(_seeds(roots, grads, create_graph), edges)
    if task.recorder is not None:
        task.recorder.submit()


def grad(
    outputs: TensorOrTensors,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of `outputs` with respect to `inputs`, leaving every `.grad` as it is.

    Returns:
        A tuple aligned with `inputs`, or a dict with the same keys if `inputs` is a dict.

    Raises:
        RuntimeError: an input that does not require grad, or is unused and `allow_unused` is not set (EN-14).
        ValueError: `materialize_grads` together with `allow_unused=False`.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    roots = _as_tuple(outputs)
    wanted = _wanted(inputs, "grad")
    task = _Pass(roots, retain_graph, create_graph)
    edges = [tensor.edge() for tensor in wanted]
    task.run(_seeds(roots, _grads_of(grad_outputs, len(roots)), create_graph), edges, into_leaves=False)
    if task.recorder is not None:
        task.recorder.submit()
    found: dict[Edge, Tensor | None] = {}
    for index, (edge, tensor) in enumerate(zip(edges, wanted, strict=True)):
        if edge in found:
            continue
        result = found[edge] = _known(task.captured.get(edge))
        if result is None and materialize_grads:
            found[edge] = result = Tensor.made(np.zeros(tensor.shape, tensor.dtype))
            result._requires_grad = create_graph
        elif result is None and not allow_unused:
            raise AutogradError(
                f"The differentiated tensor at index {index} appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
    results = [found[edge] for edge in edges]
    return dict(zip(cast("dict[Any, Any]", inputs), results, strict=True)) if isinstance(inputs, dict) else tuple(results)


def _known(captured: Any) -> Tensor | None:
    """Return a captured gradient as a tensor, None if it is undefined; waits where only running tells (H5)."""
    if captured is None:
        return None
    result: Tensor = captured if isinstance(captured, Tensor) else Tensor.made(captured)
    data = result._data
    if type(data) is Pending and data.defined is None and data.record.recorder.read(data) is None:
        return None
    return result


class _Pass:
    """One backward pass: its options, what it found, and the gradients on their way."""

    def __init__(self, roots: Sequence[Tensor], retain_graph: bool | None, create_graph: bool) -> None:
        self.create_graph = create_graph
        self.retain = create_graph if retain_graph is None else retain_graph
        self.recorder = _recorder_of(roots)
        self.captured: dict[Edge, Any] = {}
        self._buffers: dict[Node, list[list[Any]]] = {}
        self._wanted: frozenset[Edge] = frozenset()

    def run(self, seeds: list[tuple[Edge, Any]], wanted: list[Edge] | None, *, into_leaves: bool = True) -> None:
        """Run the pass. With `wanted`, run only what lies on a path to those edges, and capture what arrives there;
        `into_leaves` says whether wanted leaves accumulate as well."""
        if self.recorder is None:
            self._walk(seeds, wanted, into_leaves)
        else:
            with self.recorder.during_pass():
                self._walk(seeds, wanted, into_leaves)

    def _walk(self, seeds: list[tuple[Edge, Any]], wanted: list[Edge] | None, into_leaves: bool) -> None:
        waiting, order = _dependencies([edge[0] for edge, _ in seeds])
        execute: set[Node] | None = None
        if wanted is not None:
            self._wanted = frozenset(wanted)
            execute = _leading_to(order, {edge[0] for edge in wanted})
            if into_leaves:
                execute.update(edge[0] for edge in wanted if isinstance(edge[0], AccumulateGrad))
        buffers = self._buffers
        ready: list[tuple[int, int, Node]] = []
        tie = 0
        for edge, value in seeds:
            node = edge[0]
            assert node is not None
            buffers.setdefault(node, [[] for _ in node._metas])[edge[1]].append(value)
        for node in buffers:
            if not waiting[node]:
                tie += 1
                heappush(ready, (-node._sequence, tie, node))
        before = state.grad
        state.grad = self.create_graph
        try:
            while ready:
                node = heappop(ready)[2]
                results = self._step(node, execute is None or node in execute)
                position = 0
                for edge in node._edges:
                    if edge is not None and edge[0] is not None:
                        below = edge[0]
                        if results is not None:
                            slots = buffers.get(below)
                            if slots is None:
                                slots = buffers[below] = [[] for _ in below._metas]
                            slots[edge[1]].append(results[position])
                        left = waiting[below] - 1
                        waiting[below] = left
                        if not left:
                            tie += 1
                            heappush(ready, (-below._sequence, tie, below))
                    position += 1
        finally:
            state.grad = before

    def _step(self, node: Node, execute: bool) -> Sequence[Any] | None:
        """Sum what arrived, run tensor hooks, capture, run the node; return the gradients of its inputs, or None."""
        slots = self._buffers.pop(node, None)
        if slots is None or not (execute or any((node, number) in self._wanted for number in range(len(slots)))):
            return None
        grads: list[Any] = []
        for terms in slots:
            grads.append((terms[0] if len(terms) == 1 else balanced_sum(terms, self._add)) if terms else None)
        if node._tensor_hooks is not None:
            for number, hooks in sorted(node._tensor_hooks.items()):
                for hook in list(hooks.values()):
                    (grads[number],) = self._hook("tensor", hook, node, [grads[number]], (node._metas[number],))
        if node._retained is not None:
            for number, reference in node._retained.items():
                tensor = reference()
                if tensor is not None and grads[number] is not None:
                    accumulate(tensor, grads[number], self.create_graph, self.recorder)
        if self._wanted:
            for number, value in enumerate(grads):
                if (node, number) in self._wanted:
                    self.captured[node, number] = value
            if not execute:
                return None
        if node._pre_hooks is not None:
            for hook in list(node._pre_hooks.values()):
                grads = self._hook("pre", hook, node, grads, node._metas)
        results = node._run(grads, self.create_graph, self.recorder)
        if node._post_hooks is not None:
            for hook in list(node._post_hooks.values()):
                results = self._hook("post", hook, node, list(results), node._input_metas(), grads)
        if not self.retain:
            node._release()
        return results

    def _add(self, left: Any, right: Any) -> Any:
        if left is None:
            return right
        if right is None:
            return left
        if self.recorder is not None and not self.create_graph:
            return self.recorder.add(left, right)
        return left + right if self.create_graph else np.asarray(left + right)

    def _hook(
        self, kind: str, hook: Any, node: Node, values: list[Any], metas: Sequence[Meta | None], beside: Sequence[Any] = ()
    ) -> list[Any]:
        if self.create_graph:
            return call_hook(kind, hook, values, beside)
        if self.recorder is not None:
            return self.recorder.hook(kind, hook, node, values, metas, beside)
        wrapped = call_hook(kind, hook, [_wrapped(v) for v in values], [_wrapped(v) for v in beside])
        return [None if tensor is None else tensor._data for tensor in wrapped]


def call_hook(kind: str, hook: Any, values: Sequence[Tensor | None], beside: Sequence[Tensor | None] = ()) -> list[Any]:
    """Call a user's hook and return what `values` are after it.

    Args:
        kind: "tensor" (one value), "pre" (gradients of outputs) or "post" (`values` are the gradients of inputs,
            `beside` those of outputs).

    Raises:
        TypeError, RuntimeError: the hook returned something of the wrong type, number, dtype or shape (HK-02, ND-09).
    """
    if kind == "tensor":
        result = hook(values[0])
        return [values[0] if result is None else _checked(hook, result, values[0])]
    result = hook(tuple(values)) if kind == "pre" else hook(tuple(values), tuple(beside))
    if result is None:
        return list(values)
    if not isinstance(result, tuple):
        raise TypeError(f"{_name_of(hook)}: expected tuple, but hook returned '{type(result).__name__}'")
    given: tuple[Any, ...] = result
    if len(given) != len(values):
        raise AutogradError(f"hook '{_name_of(hook)}' has returned an incorrect number of values (got {len(given)}, but expected {len(values)})")
    return [None if new is None else _checked(hook, new, old) for new, old in zip(given, values, strict=True)]


def _checked(hook: Any, new: Any, old: Tensor | None) -> Tensor:
    if not isinstance(new, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}' (hook '{_name_of(hook)}')")
    if old is not None and new.dtype != old.dtype:
        raise AutogradError(f"hook '{_name_of(hook)}' has changed the type of value (was {old.dtype} got {new.dtype})")
    if old is not None and new.shape != old.shape:
        raise AutogradError(f"hook '{_name_of(hook)}' has changed the size of value (was {list(old.shape)}, got {list(new.shape)})")
    return new


def _name_of(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


def _wrapped(data: Data | None) -> Tensor | None:
    return None if data is None else Tensor.made(data)


def _recorder_of(roots: Sequence[Tensor]) -> Recorder | None:
    for root in roots:
        if type(root._data) is Pending:
            return root._data.record.recorder
    return state.recorder


def _dependencies(roots: Sequence[Node | None]) -> tuple[dict[Node, int], list[Node]]:
    """Return how many contributions each reachable node waits for, and the nodes, each before some of its users."""
    waiting: dict[Node, int] = {}
    order: list[Node] = []
    stack: list[Node] = []
    for root in roots:
        if root is not None and root not in waiting:
            waiting[root] = 0
            stack.append(root)
    while stack:
        node = stack.pop()
        order.append(node)
        for edge in node._edges:
            if edge is not None:
                below = edge[0]
                if below is not None:
                    if below in waiting:
                        waiting[below] += 1
                    else:
                        waiting[below] = 1
                        stack.append(below)
    return waiting, order


def _leading_to(order: Sequence[Node], targets: set[Node | None]) -> set[Node]:
    """Return the nodes from which a target can be reached along at least one edge."""
    users: dict[Node, list[Node]] = {}
    for node in order:
        for edge in node._edges:
            if edge is not None and edge[0] is not None:
                users.setdefault(edge[0], []).append(node)
    leading: set[Node] = set()
    stack = [target for target in targets if target is not None]
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in leading:
                leading.add(user)
                stack.append(user)
    return leading


def _as_tuple(tensors: Any) -> tuple[Tensor, ...]:
    items: tuple[Any, ...] = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(f"expected tensors, got {type(item).__name__}")
    return items


def _wanted(inputs: Any, caller: str) -> tuple[Tensor, ...]:
    """Return the tensors whose gradients are asked for (EN-11, EN-15)."""
    if isinstance(inputs, dict):
        inputs = tuple(cast("dict[Any, Any]", inputs).values())
    elif isinstance(inputs, Mapping):
        raise TypeError(f"inputs must be a tensor, a sequence of tensors or a dict, got {type(inputs).__name__}")  # pyright: ignore[reportUnknownArgumentType]
    wanted = _as_tuple(inputs)
    if not wanted:
        raise AutogradError(f"`inputs` argument to `{caller}()` cannot be empty.")
    for index, tensor in enumerate(wanted):
        if not tensor._requires_grad:
            raise AutogradError(f"One of the differentiated Tensors does not require grad (input {index})")
    return wanted


def _grads_of(grads: Any, count: int) -> list[Any]:
    if grads is None:
        return [None] * count
    items = [grads] if isinstance(grads, Tensor) else list(grads)
    if len(items) != count:
        raise AutogradError(f"got {count} tensors and {len(items)} gradients")
    return items


def _seeds(roots: Sequence[Tensor], grads: Sequence[Any], create_graph: bool) -> list[tuple[Edge, Any]]:
    """Return each root's edge with its checked gradient (EN-01 to EN-05)."""
    from . import ops

    seeds: list[tuple[Edge, Any]] = []
    for index, (root, grad) in enumerate(zip(roots, grads, strict=True)):
        if not root._requires_grad:
            raise AutogradError(f"element {index} of tensors does not require grad and does not have a grad_fn")
        if grad is None:
            if root._data.size != 1:
                raise AutogradError("grad can be implicitly created only for scalar outputs")
            if root.dtype.kind != "f":
                raise AutogradError(f"grad can be implicitly created only for real scalar outputs but got {root.dtype}")
            grad = ops.ones_as(root)
        else:
            if not isinstance(grad, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
            if grad.shape != root.shape:
                raise AutogradError(
                    f"Mismatch in shape: grad_output[{index}] has a shape of {list(grad.shape)} and output[{index}] has a shape of {list(root.shape)}."
                )
            if (grad.dtype.kind == "c") != (root.dtype.kind == "c"):
                raise AutogradError(f"For complex Tensors, both grad_output and output are required to have the same dtype: {grad.dtype} and {root.dtype}.")
            if grad.dtype != root.dtype:
                grad = ops.to_dtype(grad, root.dtype)
        seeds.append((root.edge(), grad if create_graph else grad._data))
    return seeds
