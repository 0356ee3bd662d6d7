"""Argument selection, aliases of inputs, and detaching of results for function transforms.

Shared by `reverse`, `forward` and `jacobian`; nothing is differentiated here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, cast

from raygrad.errors import AutogradError
from raygrad.tracebacks import attribute_of

from .. import ops
from ..core.batched_data import Batched
from ..core.modes import state
from ..core.pytree import Structure, flatten, unflatten
from ..core.recorder import Pending
from ..forward_mode.tangents import LocalAliasNode, edge_or_none
from ..nodes.accumulator import AccumulateGrad
from ..nodes.node import Node
from ..nodes.once_differentiable import DelayedError
from ..tensor.tangent_levels import share_tangents
from ..tensor.tensor import Tensor

Argnums = int | tuple[int, ...]


# ---- arguments -------------------------------------------------------------------------------------------------------


def positions_of(argnums: Any, count: int) -> tuple[int, ...]:
    """Return the positions of the differentiated arguments among `count` positional ones, counted from the front.

    Raises:
        RuntimeError: out of range, twice, none, or no integers.
    """
    if not isinstance(argnums, int | tuple) or isinstance(argnums, bool):
        raise AutogradError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    given: tuple[Any, ...] = cast("tuple[Any, ...]", argnums) if isinstance(argnums, tuple) else (argnums,)
    if not given:
        raise AutogradError("argnums must be non-empty")
    positions: list[int] = []
    for number in given:
        if not isinstance(number, int) or isinstance(number, bool):
            raise AutogradError(f"argnum must be int, got: {type(number)}")
        if not -count <= number < count:
            raise AutogradError(f"Got argnum={number}, but only {count} positional inputs")
        positions.append(number % count)
    if len(set(positions)) != len(positions):
        raise AutogradError(f"argnums elements must be unique, got {argnums}")
    return tuple(positions)


def with_arguments(args: Sequence[Any], positions: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with those at `positions` replaced."""
    chosen = dict(zip(positions, values, strict=True))
    return tuple([chosen.get(position, arg) for position, arg in enumerate(args)])


def tensors_in(tree: Any) -> tuple[list[Tensor], Structure]:
    """Return the tensors of a differentiated argument, and their structure.

    Raises:
        ValueError: something else is among them.
        RuntimeError: a tensor can have no gradient.
    """
    leaves, structure = flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        if leaf.dtype.kind not in "fc":
            raise AutogradError(
                f"only Tensors of floating point and complex dtype can require gradients, got one of {leaf.dtype}"
            )
    return leaves, structure


# ---- aliases ---------------------------------------------------------------------------------------------------------


class TransformInputNode(LocalAliasNode):
    """The node of an alias of a transform's input; it leads on to the input's own node.

    Attributes:
        open: the transform is still running.
    """

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor)
        self.open = True
        self.lead_to(edge_or_none(tensor))


class InputAliases:
    """Aliases of the inputs of one call of a transform."""

    def __init__(self) -> None:
        self._nodes: list[TransformInputNode] = []

    def of(self, tensor: Tensor) -> Tensor:
        """Return an alias of a tensor, with its tangents: a leaf that requires grad."""
        node = TransformInputNode(tensor)
        self._nodes.append(node)
        data = tensor._data
        if state.recorder is not None and type(data) is not Pending and type(data) is not Batched:
            data = state.recorder.leaf(tensor)  # sent once, not for each alias
        alias = Tensor.made(data)
        alias.share_counter(tensor)
        alias._requires_grad = True
        alias._accumulator = lambda: cast("Any", node)
        return share_tangents(tensor, alias)

    def close(self) -> None:
        """Note that the transform has ended."""
        for node in self._nodes:
            node.open = False


def values_of(tensor: Tensor) -> Generator[Tensor]:
    """Yield a tensor, and inside vmap the tensors of all examples beneath it, each with its own history."""
    yield tensor
    while type(tensor._data) is Batched:
        tensor = tensor._data.value
        yield tensor


def has_outer_history(tensors: Iterable[Tensor]) -> bool:
    """Tell whether a gradient of one of the tensors would reach a leaf, an input of a transform that still runs, or an
    error that must be raised."""
    stack = [edge_or_none(tensor)[0] for one in tensors for tensor in values_of(one)]
    seen: set[Node | None] = {None}
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, AccumulateGrad | DelayedError) or (isinstance(node, TransformInputNode) and node.open):
            return True
        assert node is not None
        stack.extend([edge[0] for edge in node._edges if edge is not None])
    return False


# ---- results ---------------------------------------------------------------------------------------------------------


def without_inner_history(tensor: Tensor) -> Tensor:
    """Return a result of a transform that has ended; its history is kept only if it leads out of the transform
    (FT-10)."""
    if not tensor._requires_grad:
        return tensor
    if state.grad and has_outer_history((tensor,)):
        return tensor if tensor.grad_fn is not None else ops.view(tensor, tensor.shape)
    return share_tangents(tensor, tensor.alias() if type(tensor._data) is Batched else tensor.detach())


def tree_without_inner_history(tree: Any) -> Any:
    """Return nested results, each passed through `without_inner_history`.

    Raises:
        RuntimeError: something else than a tensor is among them.
    """
    leaves, structure = flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise AutogradError(f"Expected tensors, got unsupported type {type(leaf)}")
    return unflatten(structure, [without_inner_history(leaf) for leaf in leaves])


def split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    """Return a function's result as (output, auxiliary output or None).

    Raises:
        RuntimeError: it should be a pair and is none.
    """
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(cast("tuple[Any, ...]", result)) != 2:
        raise AutogradError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    output, aux = cast("tuple[Any, Any]", result)
    return output, aux


def output_tensors(output: Any, name: str) -> tuple[list[Tensor], Structure]:
    """Return the tensors of a function's output, and their structure.

    Raises:
        RuntimeError: something else is among them, or there are none.
    """
    leaves, structure = flatten(output)
    if not leaves or (len(leaves) == 1 and leaves[0] is None):
        raise AutogradError(f"{name}: Expected f to be a function that has non-empty output (got output = {output})")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise AutogradError(
                f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(leaf)}"
            )
    return leaves, structure


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function for messages."""
    return attribute_of(function, "__name__", type(function).__name__)
