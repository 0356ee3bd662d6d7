"""The backward traversal: the order of ready nodes (most recently created first), the summation of gradients, hooks,
captures, and freeing of saved tensors during one pass.

`engine` starts it for eager, recorded and differentiated passes alike. It keeps EN-19 and EN-20 (order), H19 (sums),
HK-05 to HK-08 (hooks) and EN-10 (freeing). Gradients are opaque here: an array, a `Pending` or a tensor, as the nodes
make them. Deep graphs are walked with explicit stacks, never by recursion (ND-16).
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..core import pass_lock
from ..core.gradient_sum import balanced_sum
from ..core.hooks import ClientHook
from ..core.modes import state
from ..core.random_streams import PassStream, Path, UnopenedStream, path_of_pass
from ..core.recorder import Recorder, resolve_gradient
from ..devices.defined_sums import add_gradients
from ..devices.serving import device_guard, is_device_array, needs_device_guard
from ..nodes.accumulator import AccumulateGrad, accumulate
from ..nodes.anomaly import AnomalyWatcher
from ..nodes.multi_hooks import MultiGradHookEntry
from ..nodes.node import Edge, Node, for_all_inputs, for_tensor_inputs
from ..registry.vjp_rules import Meta, quiet
from ..tensor.tensor import Tensor
from .dependencies import dependencies, leading_to
from .hook_calls import call_hook, read_only


class _Terms(list[Any]):
    """Contributions to one output of a node, until they are summed."""

    __slots__ = ()


_NOTHING: Any = object()
"""Marks a slot without contributions; None is an undefined gradient."""

_OUTER_GRAPH: tuple[Any, ...] = (_NOTHING,)
"""The result of a node of another graph, where the pass ends."""

_NESTED_PER_THREAD = 40
"""Nested passes that share a thread, before the next one gets a fresh stack: Python allows about 1,000
frames, and a level takes six in addition to the user's (EN-23)."""


_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray

_plus = quiet(np.add)


@quiet
def _sum_of_arrays(terms: list[Any]) -> Any:
    return balanced_sum(terms, np.add)


_numbers = itertools.count()


class BackwardPass(PassStream):
    """One backward pass: its options, its buffers of gradients, and its results. It is the random stream of what runs
    in it.

    Attributes:
        number: a unique number.
        node: the node that is running.
        arrived: gradients that reached the most recent node whose saved tensors were unpacked by hooks.
        callbacks: functions to call once, in order, after the gradients are in place.
        seen: gradients seen so far in this pass by each hook over several tensors.
        captured: the gradients that arrived at the requested edges.
    """

    def __init__(self, recorder: Recorder | None, retain_graph: bool | None, create_graph: bool) -> None:
        self.create_graph = create_graph
        self.on_tensors = create_graph or bool(state.here.forward)
        """Gradients are tensors: they are recorded, or carry tangents."""
        self.retain = create_graph if retain_graph is None else retain_graph
        self.recorder = recorder
        self.number = next(_numbers)
        self.node: Node | None = None
        self.arrived: Sequence[Any] = ()
        self.callbacks: list[Callable[[], Any]] = []
        self.seen: dict[Any, dict[int, Any]] = {}
        self.captured: dict[Edge, Any] = {}
        self._waiting: dict[Node, int] = {}
        self._buffers: dict[Node, list[Any]] = {}
        self._wanted: frozenset[Edge] = frozenset()
        self._ends: set[Node | None] = set()
        self._root: Node | None = None
        """The only root of a pass that runs some nodes only: its hooks are called even if it does not run."""
        self._outer_nodes: frozenset[Node] = frozenset()
        """Nodes of another graph that this pass leads to. Their gradients are captured; their hooks are called by the
        pass of that graph."""
        self._execute: set[Node | None] | None = None

    def run(
        self,
        seeds: list[tuple[Edge, Any]],
        wanted: list[Edge] | None,
        *,
        into_leaves: bool = True,
        outer_nodes: frozenset[Node] = frozenset(),
    ) -> None:
        """Run the pass. With `wanted`, run only what lies on a path to those edges, and capture what arrives there;
        `into_leaves` says whether wanted leaves accumulate as well. `outer_nodes` belong to another graph: the pass
        ends before them, and none of their hooks is called."""
        self._outer_nodes = outer_nodes
        recorder = self.recorder
        if recorder is None:
            self._run(seeds, wanted, into_leaves)
            return
        recorder.begin_pass(alone=not self.on_tensors)
        retaining, recorder.retaining = recorder.retaining, self.retain
        try:
            self._run(seeds, wanted, into_leaves)
        finally:
            recorder.retaining = retaining
            recorder.end_pass()

    def _run(self, seeds: list[tuple[Edge, Any]], wanted: list[Edge] | None, into_leaves: bool) -> None:
        """Run the nodes, then the callbacks, in the modes of a pass."""
        self._waiting = waiting = dependencies([edge[0] for edge, _ in seeds], self._outer_nodes)
        if wanted is not None:
            self._wanted = frozenset(wanted)
            self._ends = {edge[0] for edge in wanted}
            self._execute = leading_to(waiting, self._ends)
            if into_leaves:
                self._execute.update(edge[0] for edge in wanted if isinstance(edge[0], AccumulateGrad))
            self._root = seeds[0][0][0] if len(seeds) == 1 else None
        for edge, value in seeds:
            assert edge[0] is not None
            self._deliver(edge[0], edge[1], value)
        here = state.here
        before, outer, modes = here.grad, here.task, (here.saving, here.saving_refused, here.casting, here.inference)
        stream = here.stream
        if self.path is None:
            self.path = path_of_pass(here, within=False)
            stream = here.stream
        turn = outer is None and not self.retain
        if turn:
            pass_lock.acquire_nodes(waiting)
        here.passes += 1
        here.task = here.stream = self
        try:
            # recording, this thread has the session locked
            if here.passes % _NESTED_PER_THREAD or self.recorder is not None or not here.engine_threads:
                self._traverse(waiting)
            else:
                _on_fresh_stack(lambda: self._traverse(waiting))
            self.node = None
            while self.callbacks:
                here.grad = self.create_graph
                self.callbacks.pop(0)()
        except BaseException as error:
            if self.node is not None:
                self.node._tell_site(error)
            raise
        finally:
            here.passes -= 1
            here.task, here.stream = outer, stream
            here.grad = before
            if modes != (here.saving, here.saving_refused, here.casting, here.inference):  # left on by a hook (GR-10)
                here.saving, here.saving_refused, here.casting, here.inference = modes
                here.changed()
            if turn:
                pass_lock.release_nodes(waiting)

    def will_reach(self, node: Node) -> bool:
        """Tell whether gradients arrive at a node in this pass: it runs, or what arrives is captured."""
        if node not in self._waiting:
            return False
        return self._execute is None or node in self._execute or node in self._ends

    def _traverse(self, waiting: dict[Node, int]) -> None:
        """Run the nodes; of those that are ready, the most recently created goes first."""
        buffers, execute, recorder = self._buffers, self._execute, self.recorder
        create_graph, on_tensors, retain = self.create_graph, self.on_tensors, self.retain
        here, tie = state.here, 0
        anomaly = here.anomaly
        step = self._step if anomaly is None else self._watched(AnomalyWatcher(anomaly))
        # every node runs, and nothing is captured
        plain = execute is None and not self._wanted and anomaly is None
        saving = here.saving
        ready: list[tuple[int, int, Node]] = []
        for node in buffers:
            if not waiting[node]:
                tie += 1
                heappush(ready, (-node._sequence, tie, node))
        on_arrays = plain and not on_tensors and recorder is None
        following: Node | None = None
        arrived: list[Any] | None = None
        grads: list[Any] | None
        while ready or following is not None:
            if following is None:
                node = heappop(ready)[2]
                grads = buffers.pop(node, None)
            else:  # the only one that is ready: nearly always, in a chain
                node, following = following, None
                grads, arrived = buffers.pop(node, None) if arrived is None else arrived, None
            here.grad = create_graph
            self.node = node
            results: Sequence[Any] | None
            if not plain or node._hooked:
                results = step(node, grads, execute is None or node in execute)
                if results is _OUTER_GRAPH:
                    continue
            elif grads is None:
                results = None
            else:
                if len(grads) > 1:
                    _sum_up(grads, self._sum)
                elif type(grads[0]) is _Terms:
                    grads[0] = self._sum(grads[0])
                if on_arrays:
                    results = node._run_on_arrays(grads)
                elif on_tensors or recorder is None:
                    results = node._run(grads, on_tensors, recorder)
                else:
                    results = node._run_recorded(grads, recorder)
                if node._hooked and node._post_hooks is not None:  # registered by the backward itself
                    results = self._after(node, results, ())
                if not retain:
                    node._release()
            if here.saving is not saving:  # hooks entered by user code, and not left: they end with its node (GR-10)
                here.saving = saving
                here.changed()
            position = 0
            for edge in node._edges:
                if edge is not None and (below := edge[0]) is not None:
                    left = waiting[below] - 1
                    if results is not None:
                        slots = buffers.get(below)
                        if slots is None:
                            if len(below._metas) == 1:
                                slots = [results[position]]
                            else:
                                slots = [_NOTHING] * len(below._metas)
                                slots[edge[1]] = results[position]
                            if not left and following is None and not ready:  # it runs next: nothing is stored
                                following, arrived = below, slots
                                position += 1
                                continue
                            buffers[below] = slots
                        elif (held := slots[edge[1]]) is _NOTHING:
                            slots[edge[1]] = results[position]
                        elif type(held) is _Terms:
                            held.append(results[position])
                        elif on_arrays and not left and type(held) is _ARRAY and held.ndim:  # the last of two
                            slots[edge[1]] = self._add(held, results[position])
                        else:
                            slots[edge[1]] = _Terms((held, results[position]))
                    waiting[below] = left
                    if not left:
                        if following is None and not ready:
                            following = below
                        else:
                            if arrived is not None and following is not None:
                                buffers[following], arrived = arrived, None
                            for one in (below,) if following is None else (following, below):
                                tie += 1
                                heappush(ready, (-one._sequence, tie, one))
                            following = None
                position += 1

    def _watched(self, watcher: AnomalyWatcher) -> Callable[[Node, list[Any] | None, bool], Sequence[Any] | None]:
        """Return `_step` with anomaly detection around it."""

        def step(node: Node, grads: list[Any] | None, execute: bool) -> Sequence[Any] | None:
            try:
                results = self._step(node, grads, execute)
                watcher.ran(node, results)
            except Exception as error:
                watcher.failed(node, error)
                raise
            return results

        return step

    def _deliver(self, node: Node, number: int, value: Any) -> None:
        """Add a contribution to an output of a node. Contributions are summed once all have arrived (H19)."""
        slots = self._buffers.get(node)
        if slots is None:
            slots = self._buffers[node] = [_NOTHING] * len(node._metas)
        held = slots[number]
        if held is _NOTHING:
            slots[number] = value
        elif type(held) is _Terms:
            held.append(value)
        else:
            slots[number] = _Terms((held, value))

    def _step(self, node: Node, grads: list[Any] | None, execute: bool) -> Sequence[Any] | None:
        """Sum contributions, run tensor hooks, capture, and run the node; return the gradients of its inputs, or
        None."""
        if grads is None or not (
            execute or node is self._root or any((node, number) in self._wanted for number in range(len(grads)))
        ):
            return None
        _sum_up(grads, self._sum)
        if node in self._outer_nodes:
            self.captured.update({(node, number): value for number, value in enumerate(grads)})
            return _OUTER_GRAPH
        if node._tensor_hooks is not None:
            for number, hooks in list(node._tensor_hooks.items()):
                for hook, path in hooks.with_paths():
                    if type(hook) is MultiGradHookEntry:
                        hook.hook.saw(self, hook.position, node, grads[number])
                    else:
                        metas = (node._metas[number],)
                        (grads[number],) = self._hook("tensor", hook, path, node, [grads[number]], metas)
        if node._retained is not None:
            for number, reference in node._retained.items():
                tensor = reference()
                if tensor is not None and grads[number] is not None:
                    value = grads[number]
                    if self.on_tensors and not self.create_graph:  # `.grad` carries no tangents
                        value = value._data
                    with device_guard(value) if needs_device_guard(value) else nullcontext():
                        accumulate(tensor, value, self.create_graph, self.recorder, out_of_place=True)
        if self._wanted:
            for number, value in enumerate(grads):
                if (node, number) in self._wanted:
                    self.captured[node, number] = value
            if not execute:
                return None
        if node._pre_hooks is not None:
            for hook, path in node._pre_hooks.with_paths():
                grads = self._hook("pre", hook, path, node, grads, node._metas)
        beside = grads if node._post_hooks else ()  # a hook that backward itself registers sees none (ND-13)
        if self._execute is None:
            results = node._run(grads, self.on_tensors, self.recorder)
        else:
            results = self._run_in_part(node, grads, self._execute)
        if node._post_hooks is not None:
            results = self._after(node, results, beside)
        if not self.retain:
            node._release()
        return results

    def _after(self, node: Node, results: Sequence[Any], beside: Sequence[Any]) -> Sequence[Any]:
        """Run a node's post hooks over the gradients of its tensor inputs (ND-09)."""
        assert node._post_hooks is not None
        state.here.grad = self.create_graph
        shown, metas = for_tensor_inputs(node, results), for_tensor_inputs(node, node._input_metas())
        for hook, path in node._post_hooks.with_paths():
            shown = self._hook("post", hook, path, node, shown, metas, beside)
        return for_all_inputs(node, shown)

    def _run_in_part(self, node: Node, grads: list[Any], execute: set[Node | None]) -> Sequence[Any]:
        """Run a node for the inputs whose gradient this pass needs; other gradients are None (CX-18)."""
        ends = self._ends
        needed = [edge is not None and (edge[0] in execute or edge[0] in ends) for edge in node._edges]
        outer, node._needed = node._needed, needed
        try:
            results = node._run(grads, self.on_tensors, self.recorder)
        finally:
            node._needed = outer
        return [result if need else None for result, need in zip(results, needed, strict=True)]

    def _sum(self, terms: _Terms) -> Any:
        """Return the sum of contributions (H19)."""
        if len(terms) > 2 and self.recorder is None:
            for term in terms:
                if type(term) is not _ARRAY or not term.ndim:  # of two without dimension NumPy makes a scalar
                    break
            else:
                return _sum_of_arrays(terms)
        return balanced_sum(terms, self._add)

    def _add(self, left: Any, right: Any) -> Any:
        if type(left) is _ARRAY and type(right) is _ARRAY and left.ndim and self.recorder is None:
            return _plus(left, right)
        if left is None:
            return right
        if right is None:
            return left
        if self.recorder is not None and not self.on_tensors:
            return self.recorder.add(left, right)
        if self.on_tensors:
            return left + right
        if is_device_array(left) or is_device_array(right):
            return add_gradients(left, right)
        return np.asarray(_plus(left, right))

    def show(self, kind: str, hook: Any, path: Path, node: Node, grads: Sequence[Any]) -> None:
        """Call a hook over several tensors ("all" or "any") with their gradients, which it cannot replace."""
        self._hook(kind, hook, path, node, [], (), grads)

    def _hook(
        self,
        kind: str,
        hook: Any,
        path: Path,
        node: Node,
        values: list[Any],
        metas: Sequence[Meta | None],
        beside: Sequence[Any] = (),
    ) -> list[Any]:
        here = state.here
        outer, here.stream = here.stream, UnopenedStream(path, self.path or ())
        try:
            return self._call_hook(kind, hook, node, values, metas, beside)
        finally:
            here.stream = outer

    def _call_hook(
        self,
        kind: str,
        hook: Any,
        node: Node,
        values: list[Any],
        metas: Sequence[Meta | None],
        beside: Sequence[Any],
    ) -> list[Any]:
        recorder = None if self.on_tensors else self.recorder
        if recorder is not None:
            if type(hook) is not ClientHook:
                return recorder.hook(kind, hook, node, values, metas, beside)
            recorder.called_here(hook.__name__)
            values, beside = (
                [resolve_gradient(value) for value in values],
                [resolve_gradient(value) for value in beside],
            )
        shown = [read_only(value) for value in values]
        results = call_hook(kind, hook, shown, [read_only(value) for value in beside])
        after = [
            value if result is seal else result for value, seal, result in zip(values, shown, results, strict=True)
        ]
        if self.on_tensors:
            return after
        return [
            (one._data if recorder is None else recorder.leaf(one)) if isinstance(one, Tensor) else one for one in after
        ]


def _sum_up(grads: list[Any], sum_of: Callable[[_Terms], Any]) -> None:
    """Replace the contributions to each output by their sum, or by None if there are none."""
    number = 0
    for value in grads:
        if value is _NOTHING:
            grads[number] = None
        elif type(value) is _Terms:
            grads[number] = sum_of(value)
        number += 1


def _on_fresh_stack(work: Callable[[], None]) -> None:
    """Run `work` on another thread with this thread's modes and context; reraise its exception here."""
    raised: list[BaseException] = []
    parts = state.snapshot()

    def run() -> None:
        state.restore(parts)
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,))
    thread.start()
    thread.join()
    if raised:
        raise raised.pop()
