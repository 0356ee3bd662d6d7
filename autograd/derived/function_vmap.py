"""vmap of a user's Function: by its `vmap` staticmethod, by a generated rule, or one example after the other (VM-01 to
VM-11, VM-14).

Called by `apply` where an argument is batched. It handles the innermost level; the application that it makes goes
through `apply` again, for the levels further out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakSet

from raygrad.errors import AutogradError, NoSingleValue
from raygrad.tracebacks import attribute_of

from ..core.batched_data import VmapLevel, innermost_data, outside_vmap_level, unwrap_batched
from ..core.modes import running_user_code, state
from ..core.pytree import LEAF, Structure, broadcast_prefix, flatten, unflatten
from ..core.random_streams import (
    VMAP,
    Path,
    RandomStream,
    StreamHolder,
    current_stream,
    path_of_application,
    running_with,
)
from ..core.recorder import Pending
from ..dispatch.device_dispatch import tensor_devices
from ..dispatch.random_numbers import GeneratorState, drawn_alike
from ..forward_mode.function_jvp import propagate
from ..functions.context import FunctionNode, name_as_generated
from ..functions.function_class_api import FunctionClassMembers
from ..functions.function_outputs import wrap_outputs
from ..nodes.node import NO_EDGE, next_sequence
from ..registry.define_op import axis_of
from ..saved.saved_slots import sort_into_slots
from ..tensor.tangent_levels import carries_tangent
from ..tensor.tensor import Tensor
from ..vmap import along, batched
from ..vmap.batched_call import example_of, stacked_examples
from .fused_jvp import FusedJvp
from .generated_vmap_rule import Batch, vmapped

if TYPE_CHECKING:
    from ..functions.function import Function


class VmapInfo(NamedTuple):
    """The first argument of a `vmap` staticmethod: the batch size, and the randomness mode."""

    batch_size: int
    randomness: str


def apply_batched(cls: type[Function], args: tuple[Any, ...], named: dict[str, Any], level: VmapLevel) -> Any:
    """Apply a Function of whose arguments at least one is batched at `level`, and none at a level further in.

    Raises:
        RuntimeError: the Function has no setup_context, no way to be vmapped, or two; its rule returned what does not
            fit.
    """
    if issubclass(cls, FusedJvp):  # how a session applies a Function in forward mode
        with running_with(state.here, _stream_of_fused(args, level, path_of_application(state.here))):
            return _by_rule(cls, args, named, level)
    if cls._traits.setup is None and cls.vmap is FunctionClassMembers.vmap:
        raise _without_setup(cls)
    flows = state.grad and any(isinstance(arg, Tensor) and arg._requires_grad for arg in args)
    tangents = bool(state.forward) and any(isinstance(arg, Tensor) and carries_tangent(arg) for arg in args)
    here = state.here
    path = path_of_application(here)
    outer, here.stream = here.stream, (*path, VMAP)
    try:
        return _applied(cls, args, named, level, path, flows, tangents)
    finally:
        here.stream = outer


def _stream_of_fused(args: tuple[Any, ...], level: VmapLevel, path: Path) -> StreamHolder:
    """Return the stream in which a session applies a Function and its jvp to each example: that of a rule, or, where
    tangents alone differ between examples, one whose first application is that to all of them."""
    if any(unwrap_batched(arg, level)[1] is not None for arg in args[1 : 1 + args[0][0]]):
        return (*path, VMAP)
    stream = RandomStream(path[0])
    stream.reseed(path[0], (path[1], 0, 0, 0))
    return stream


def _applied(
    cls: type[Function],
    args: tuple[Any, ...],
    named: dict[str, Any],
    level: VmapLevel,
    path: Path,
    flows: bool,
    tangents: bool,
) -> Any:
    raw = _by_rule(cls, args, named, level)
    if not flows and not tangents:
        return raw
    outputs: tuple[Any, ...] = cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)
    outputs = tuple([_for_node(output, args, level) for output in outputs])
    raw = outputs if isinstance(raw, tuple) else outputs[0]
    node = _node(cls, args, raw, flows, named)
    node._path = path
    result = wrap_outputs(node, raw, args, args, True)
    if tangents:
        propagate(node, args, raw, result)
    return result


def _for_node(output: Any, args: tuple[Any, ...], level: VmapLevel) -> Any:
    """Return an output to which this level's node can be attached: an unbatched one is expanded, since it may have a
    node further out."""
    if (
        not isinstance(output, Tensor)
        or unwrap_batched(output, level)[1] is not None
        or any(arg is output for arg in args)
    ):
        return output
    return batched(along(output, None, 0, level.size), 0, level)


def _without_setup(cls: type[Function]) -> AutogradError:
    return AutogradError(
        f"In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
        f"override the setup_context staticmethod: {cls.__name__} takes its ctx in forward. Write forward without ctx, "
        "and what it saves in setup_context(ctx, inputs, output)"
    )


def _node(cls: type[Function], args: tuple[Any, ...], raw: Any, flows: bool, named: dict[str, Any]) -> FunctionNode:
    """Return the node inside the level, with its context set up from batched arguments and outputs."""
    node = cls._backward_cls()
    tensors = [arg if isinstance(arg, Tensor) else None for arg in args]
    node.needs_input_grad = tuple([t is not None and t._requires_grad for t in tensors])
    if flows:
        node._edges = [None if t is None else t.edge() if t._requires_grad else NO_EDGE for t in tensors]
        node._inputs = [None if t is None else (t.shape, t.dtype) for t in tensors]
        node._input_places = tensor_devices(tensors)
        node._sequence = next_sequence()
        if state.transforms.count("vmap") < len(state.transforms):
            name_as_generated(node)
    setup = cls._traits.setup
    before = state.grad
    state.grad = False
    try:
        if setup is not None:
            setup(node, args, raw)
        else:
            with running_user_code():
                _set_up_by_forward(cls, node, args, raw, named)
    finally:
        state.grad = before
    if flows and node.to_save is not None:
        sort_into_slots(node, node.to_save, args, cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,))
    return node


def _set_up_by_forward(
    cls: type[Function], node: FunctionNode, args: tuple[Any, ...], raw: Any, named: dict[str, Any]
) -> None:
    """Set up the context of a Function in the combined style, whose vmap rule has returned `raw`, by its forward: run
    on batched tensors, once more.

    Raises:
        RuntimeError: forward works on arrays, which a batched tensor does not have, or in place: it needs a
            setup_context.
    """
    try:
        made = cls._traits.forward(node, *args, **named)
    except NoSingleValue:
        raise _without_setup(cls) from None
    if node.dirty_tensors:
        raise _without_setup(cls)
    of_rule: tuple[Any, ...] = cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)
    of_forward: tuple[Any, ...] = cast("tuple[Any, ...]", made) if isinstance(made, tuple) else (made,)

    def as_returned(tensors: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        if tensors is None:
            return None
        places = [next((i for i, out in enumerate(of_forward) if out is tensor), -1) for tensor in tensors]
        return tuple([tensor if i < 0 else of_rule[i] for tensor, i in zip(tensors, places, strict=True)])

    node.to_save, node.saved_for_forward = as_returned(node.to_save), as_returned(node.saved_for_forward)
    node.non_differentiable = as_returned(node.non_differentiable)


# ---- the rule --------------------------------------------------------------------------------------------------------


def _by_rule(cls: type[Function], args: tuple[Any, ...], named: dict[str, Any], level: VmapLevel) -> Any:
    """Return the outputs, batched at `level` where they differ between examples."""
    written = cls.vmap is not FunctionClassMembers.vmap
    if written and cls.generate_vmap_rule:
        raise AutogradError(
            f"{cls.__name__} has generate_vmap_rule=True and a vmap staticmethod: which of them is meant? Set "
            "generate_vmap_rule=False, or remove the vmap staticmethod"
        )
    if not written and not cls.generate_vmap_rule:
        raise AutogradError(
            f"{cls.__name__} does not have vmap support: override its vmap staticmethod, or set generate_vmap_rule=True"
        )
    leaves, structure = flatten(args)
    parts = [unwrap_batched(leaf, level) for leaf in leaves]
    values, dims = [value for value, _ in parts], [dim for _, dim in parts]
    with outside_vmap_level(level), running_user_code():
        if written:
            output, out_dims = _of_user(cls, values, dims, structure, named, level)
        else:
            output, out_dims = _generated(cls, values, dims, structure, named, level)
    outs, kind = flatten(output)
    results: list[Any] = []
    for out, dim in zip(outs, out_dims, strict=True):
        position = next((p for p, value in enumerate(values) if value is out and isinstance(out, Tensor)), None)
        if position is not None and _same_dim(cls, out, dim, dims[position]):
            results.append(leaves[position])  # an argument as it is stays the tensor that the caller has
        else:
            results.append(batched(out, dim, level) if isinstance(out, Tensor) else out)
    return unflatten(kind, results)


def _same_dim(cls: type[Function], out: Tensor, dim: int | None, given: int | None) -> bool:
    """Tell whether the batch dimension of an argument that a rule returned is where it was (VM-05).

    Raises:
        RuntimeError: the rule says that they are elsewhere.
    """
    if dim != given:
        raise AutogradError(
            f"{cls.__name__}.vmap returned one of its arguments (shape {list(out.shape)}) with out_dim {dim}, but its "
            f"examples lie along {given}, as in_dims says: return that, or a tensor of another shape"
        )
    return True


def _of_user(
    cls: type[Function],
    values: Sequence[Any],
    dims: Sequence[int | None],
    structure: Structure,
    named: dict[str, Any],
    level: VmapLevel,
) -> tuple[Any, list[int | None]]:
    """Return the outputs of the `vmap` staticmethod, with a checked out_dim per leaf (VM-02 to VM-06)."""
    info = VmapInfo(level.size, level.randomness)
    result = cls.vmap(info, unflatten(structure, dims), *unflatten(structure, values), **named)
    name = f"the {cls.__name__}.vmap staticmethod"
    if not isinstance(result, tuple) or len(cast("tuple[Any, ...]", result)) != 2:
        got = f"{len(cast('tuple[Any, ...]', result))} values" if isinstance(result, tuple) else type(result).__name__
        raise AutogradError(f"Expected {name} to have two returns, output and out_dims, but got {got}")
    output, out_dims = cast("tuple[Any, Any]", result)
    outs, kind = flatten(output)
    given = None if kind == LEAF and isinstance(out_dims, tuple) else broadcast_prefix(out_dims, kind)
    if given is None:
        raise AutogradError(
            f"{name} returned an incompatible (output, out_dims): out_dims has structure {flatten(out_dims)[1]}, "
            f"output has structure {kind}; give an integer or None for each tensor, or one for all"
        )
    return output, [_checked_dim(name, out, dim, level.size) for out, dim in zip(outs, given, strict=True)]


def _checked_dim(name: str, out: Any, dim: Any, size: int) -> int | None:
    if dim is None or not isinstance(out, Tensor):
        return None
    if type(dim) is not int:
        raise AutogradError(f"{name} returned an out_dim of type {type(dim).__name__} ({dim}); expected int or None")
    axis = axis_of(dim, out.ndim)
    if not out.ndim or out.shape[axis] != size:
        raise AutogradError(
            f"{name} returned an output of shape {list(out.shape)} with out_dim {dim}, but there are {size} examples "
            "(info.batch_size): the extent of that dimension must be their number"
        )
    return axis


# ---- a generated rule ------------------------------------------------------------------------------------------------

_ONE_BY_ONE: WeakSet[Any] = WeakSet()
"""Functions whose forward works on arrays or draws random numbers, and so cannot run on batched tensors."""


def _generated(
    cls: type[Function],
    values: Sequence[Any],
    dims: Sequence[int | None],
    structure: Structure,
    named: dict[str, Any],
    level: VmapLevel,
) -> tuple[Any, list[int | None]]:
    """Return the outputs for all examples by running forward once, on batched tensors, or once for each example.

    In a session each example is an application of its own, so that they are spread over the workers.
    """
    recorded = state.recorder is not None or any(
        type(innermost_data(attribute_of(v, "_data"))) is Pending for v in values
    )
    if not recorded and cls not in _ONE_BY_ONE and cls._traits.setup is not None:
        batch, before = Batch(level, tuple(dims), structure, named), GeneratorState()
        try:
            output = vmapped(cls).apply(batch, *values)
        except NoSingleValue:
            _ONE_BY_ONE.add(cls)
            before.back()
        else:
            return output, batch.out_dims
    if level.randomness == "error":
        current_stream(state.here).refuse_draws()
    with drawn_alike(level.randomness == "same") as again:
        return _one_by_one(cls, values, dims, structure, named, level.size, again)


def _one_by_one(
    cls: type[Function],
    values: Sequence[Any],
    dims: Sequence[int | None],
    structure: Structure,
    named: dict[str, Any],
    size: int,
    again: Callable[[], None],
) -> tuple[Any, list[int | None]]:
    """Apply the Function to one example after the other, and stack the outputs. `again` is called before each."""
    made: list[list[Any]] = []
    kind = LEAF
    for number in range(max(size, 1)):  # of no examples, to one of zeros, for the shape of what comes out
        again()
        example = [v if d is None else example_of(v, d, number, size) for v, d in zip(values, dims, strict=True)]
        leaves, kind = flatten(cls.apply(*unflatten(structure, example), **named))
        made.append(leaves)
    several = [isinstance(parts[0], Tensor) for parts in zip(*made, strict=True)]
    outs = [
        stacked_examples(parts, size) if batch else parts[0]
        for parts, batch in zip(zip(*made, strict=True), several, strict=True)
    ]
    return unflatten(kind, outs), [0 if batch else None for batch in several]
