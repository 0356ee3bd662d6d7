"""`once_differentiable`: the decorator, its error node, and the search for that node behind outputs (LG-01 to LG-03).

A backward so marked runs with recording off, and its results get the error node as their producer. A double backward
and a session pass the node on to the results that a user holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from raygrad.errors import AutogradError

from ..core.modes import no_grad, state
from ..core.pytree import flatten, unflatten
from ..core.recorder import Data, Recorder
from ..registry.vjp_rules import Meta
from ..tensor.tensor import Tensor
from .accumulator import AccumulateGrad
from .node import NO_EDGE, Node, next_sequence

F = TypeVar("F", bound=Callable[..., Any])


def once_differentiable(backward: F) -> F:
    """Return a backward that runs with recording off, for what cannot be differentiated again (SciPy, a solver).

    Under `create_graph` each gradient that it returns requires grad, with a producer that raises when a derivative of
    it is asked for: differentiating twice is an error, never a silent zero.

    Raises (the results' producer, when it runs):
        RuntimeError: the gradient of the wrapped backward was asked for.
    """

    @wraps(backward)
    def once(ctx: Any, *grad_outputs: Any) -> Any:
        return run_once(backward, ctx, grad_outputs)  # all that it needs of raygrad: it travels as the user's code does

    return cast("F", once)


def run_once(backward: Callable[..., Any], ctx: Any, grad_outputs: tuple[Any, ...]) -> Any:
    """Run a backward that is marked as `once_differentiable`."""
    with no_grad():
        results = backward(ctx, *grad_outputs)
    if not state.grad or not any(isinstance(grad, Tensor) for grad in flatten(grad_outputs)[0]):
        return results  # not to be differentiated, or bare arrays: nothing is recorded
    return with_delayed_error(results, ctx._title() if isinstance(ctx, Node) else "")


def with_delayed_error(results: Any, name: str) -> Any:
    """Return what a backward returned with a `DelayedError` as the producer of each tensor or array in it.

    Args:
        results: gradients, alone or in containers.
        name: the name of the node whose backward it was, for the message.
    """
    leaves, structure = flatten(results)
    datas = [_data_of(leaf) for leaf in leaves]
    node = DelayedError(name, [None if data is None else (data.shape, data.dtype) for data in datas])
    made = [
        leaf if data is None else Tensor.made(data, node, number)
        for number, (leaf, data) in enumerate(zip(leaves, datas, strict=True))
    ]
    return unflatten(structure, made)


def _data_of(value: Any) -> Data | None:
    if isinstance(value, Tensor):
        return value._data
    return np.asarray(cast("Any", value)) if isinstance(value, np.ndarray | np.generic) else None


class DelayedError(Node):
    """The producer of gradients that must not be differentiated: running it raises.

    Its edges lead nowhere, so that `grad` for a certain input finds that input unused (LG-02).
    """

    def __init__(self, name: str, metas: Sequence[Meta | None]) -> None:
        self._of = name
        self._metas = metas
        self._edges = [NO_EDGE] * len(metas)
        self._sequence = next_sequence()

    @property
    def error(self) -> AutogradError:
        """What running it raises."""
        whose = f" ({self._of})" if self._of else ""
        return AutogradError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
            f"{whose}; write its backward with differentiable operations and leave the decorator out"
        )

    def instead(self, result: Tensor) -> Tensor:
        """Return a result behind which this node lies as one whose producer raises the same."""
        return with_delayed_error(Tensor.made(result._data), self._of)

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        raise self.error


def find_delayed_error(
    outputs: Sequence[Tensor | None], ends: Collection[Node] = ()
) -> tuple[DelayedError | None, bool]:
    """Return a `DelayedError` among the ancestors of `outputs`, if there is one, and whether a leaf is among them.

    Nodes in `ends` count as leaves: the search does not go past them.
    """
    stack: list[Node] = [t.grad_fn for t in outputs if t is not None and t.grad_fn is not None]
    seen = set(stack)
    found, leaf = None, False
    while stack:
        node = stack.pop()
        if isinstance(node, DelayedError):
            found = node
        elif isinstance(node, AccumulateGrad) or node in ends:
            leaf = True
            continue
        for edge in node._edges:
            if edge is not None and edge[0] is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return found, leaf


def delayed_error_outputs(outputs: Sequence[Tensor | None], ends: Collection[Node] = ()) -> dict[int, DelayedError]:
    """Return, by number, the outputs behind which there is a `DelayedError` and nothing else to differentiate by."""
    if find_delayed_error(outputs, ends)[0] is None:
        return {}
    each = {number: find_delayed_error([output], ends) for number, output in enumerate(outputs)}
    return {number: error for number, (error, leaf) in each.items() if error is not None and not leaf}


def check_differentiable(outputs: Sequence[Tensor | None], ends: Collection[Node] = ()) -> None:
    """Raise if a `DelayedError` lies anywhere behind `outputs` (not behind `ends`), also where no wanted input is
    behind it.

    For those who ask for the gradients of certain inputs and take "unused" for zero: local tapes and transforms.

    Raises:
        AutogradError: it does.
    """
    found, _ = find_delayed_error(outputs, ends)
    if found is not None:
        raise found.error
