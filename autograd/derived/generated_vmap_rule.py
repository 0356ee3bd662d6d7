"""The vmap rule generated for a Function (`generate_vmap_rule`, VM-09): a Function that runs another one's methods on
batched tensors.

forward, setup_context, backward and jvp of the other Function each run once, as if on one example; this class unpacks
batches for them and packs what they return. Outer levels, recording and forward mode see an ordinary Function over the
tensors of all examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from weakref import WeakKeyDictionary

from raygrad.errors import AutogradError

from .. import ops
from ..core.batched_data import BatchedDraw, VmapLevel, open_vmap_level, outside_vmap_level, unwrap_batched
from ..core.modes import state
from ..core.pytree import Structure, unflatten
from ..core.random_streams import EXAMPLES, path_for_example, running_with
from ..dispatch.device_dispatch import tensor_devices
from ..functions.context import FunctionNode
from ..functions.function import Function
from ..saved.saved_slots import UNSHARED, VALUE, SavedSlot
from ..tensor.tensor import Tensor
from ..vmap import along, batched
from ..vmap.batched_backward import backward_batched, picked_example, picked_node, stack_gradients

RESERVED = "_vmapped_"
"""The prefix of context attributes that belong to a generated rule (VM-13)."""


@dataclass(slots=True)
class Batch:
    """The batch of one application.

    Attributes:
        level: the vmap level; it is entered whenever a method of the Function runs.
        dims: the batch dimension of each leaf of the arguments, None for an unbatched one.
        structure: of the arguments.
        named: keyword-only arguments.
        out_dims: the batch dimension of each output, once forward has run.
    """

    level: VmapLevel
    dims: tuple[int | None, ...]
    structure: Structure
    named: dict[str, Any]
    out_dims: list[int | None] = field(default_factory=list[Any])

    def arguments(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the Function's arguments as batched tensors."""
        return unflatten(self.structure, self.wrapped(values, self.dims))

    def wrapped(self, values: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
        """Return tensors of all examples as batched tensors; None and other values unchanged."""
        level = self.level
        return [
            batched(value, dim, level) if isinstance(value, Tensor) else value
            for value, dim in zip(values, dims, strict=True)
        ]

    def places(self) -> list[int | None]:
        """Return, per argument, the number of its leaf, None for a container."""
        out: list[int | None] = []
        position = 0
        for child in self.structure.children:
            out.append(position if child.kind is None else None)
            position += child.count
        return out


@dataclass(slots=True)
class InnerContext:
    """The context of the Function's own methods, as the context of the generated rule keeps it.

    Attributes:
        batch: the batch.
        context: that context, as setup_context left it, without its tensors.
        saved, forward: the batch dimensions of the saved tensors, for backward and for jvp.
        attributes: the batch dimensions of its attributes, by name.
    """

    batch: Batch
    context: FunctionNode
    saved: list[int | None]
    forward: list[int | None]
    attributes: dict[str, int | None]


_made: WeakKeyDictionary[Any, type[VmappedFunction]] = WeakKeyDictionary()


def vmapped(cls: type[Function]) -> type[VmappedFunction]:
    """Return the Function that is `cls` over a batch, named `Vmapped<name of cls>`."""
    found = _made.get(cls)
    if found is None:
        members = {"_of": cls, "__module__": cls.__module__}
        kind: Any = type(VmappedFunction)
        found = _made[cls] = kind(f"Vmapped{cls.__name__}", (VmappedFunction,), members)
    return found


class VmappedFunction(Function):
    """A Function over a batch. Its arguments are the batch, and the leaves of the inner Function's arguments."""

    generate_vmap_rule = True
    _of: type[Function]

    @classmethod
    def forward(cls, batch: Batch, *values: Any) -> Any:
        """Run the inner forward once, on batched tensors."""
        here: Any = state.here
        here.stream = (*here.stream, EXAMPLES)
        with open_vmap_level(batch.level):
            raw = cls._of._traits.forward(*batch.arguments(values), **batch.named)
            if isinstance(raw, list):
                raise AutogradError(
                    f"{cls._of.__name__}.forward returned a list; under vmap with generate_vmap_rule=True it returns a "
                    "tensor or a tuple of outputs"
                )
            parts = [unwrap_batched(out, batch.level) for out in _several(raw)]
        batch.out_dims = [dim for _, dim in parts]
        outputs = tuple([value for value, _ in parts])
        return outputs if isinstance(raw, tuple) else outputs[0]

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run the inner setup_context on a context of its own, and save its saved tensors, for all examples."""
        batch: Batch = inputs[0]
        level, setup = batch.level, cls._of._traits.setup
        example = cls._of._backward_cls()
        outputs = _several(output)
        with open_vmap_level(level):
            args = batch.arguments(inputs[1:])
            given = batch.wrapped(outputs, batch.out_dims)
            _describe(example, ctx, batch, args, given)
            assert setup is not None
            setup(example, args, tuple(given) if isinstance(output, tuple) else given[0])
            if example.dirty_tensors:
                raise AutogradError(
                    f"{cls._of.__name__}: mark_dirty is not supported with generate_vmap_rule=True, under which inputs "
                    "stand for one example of many: write a vmap staticmethod, or return a new tensor"
                )
            saved = [unwrap_batched(tensor, level) for tensor in example.to_save or ()]
            forward = [unwrap_batched(tensor, level) for tensor in example.saved_for_forward or ()]
            marked = [unwrap_batched(tensor, level)[0] for tensor in example.non_differentiable or ()]
        ctx.save_for_backward(*[value for value, _ in saved])
        if example.saved_for_forward is not None:
            ctx.save_for_forward(*[value for value, _ in forward])
        if marked:
            ctx.mark_non_differentiable(*marked)
        ctx.set_materialize_grads(example.materialize_grads)
        ctx._materialize_non_diff_grads = example._materialize_non_diff_grads
        attributes = _copy_attributes(example, ctx, level)
        example.to_save = example.saved_for_forward = example.non_differentiable = None
        ctx._vmapped_kept = InnerContext(
            batch, example, [dim for _, dim in saved], [dim for _, dim in forward], attributes
        )

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> Any:
        """Run the inner backward once, and reduce or expand its gradients to the inputs of all examples."""
        kept: InnerContext = ctx._vmapped_kept
        batch, level = kept.batch, kept.batch.level
        with open_vmap_level(level):
            example = _inner_context(ctx, kept, kept.saved)
            found = backward_batched(example, batch.wrapped(grads, batch.out_dims), state.grad, generated=True)
            parts = [unwrap_batched(grad, level) for grad in found]
        _copy_attributes(example, ctx, level)
        out: list[Any] = [None] * (1 + len(batch.dims))
        for (grad, lies), place in zip(parts, batch.places(), strict=True):
            if grad is not None and place is not None:
                out[1 + place] = _for_input(grad, lies, batch.dims[place], level.size)
        return tuple(out)

    @classmethod
    def jvp(cls, ctx: Any, *tangents: Any) -> Any:
        """Run the inner jvp once, or once for each example if it draws random numbers."""
        kept: InnerContext = ctx._vmapped_kept
        batch, level = kept.batch, kept.batch.level
        given = batch.wrapped(tangents[1:], batch.dims)
        with open_vmap_level(level):
            example = _inner_context(ctx, kept, kept.forward)
            of_args = [None if place is None else given[place] for place in batch.places()]
            raw = _jvp_of_batch(cls._of, example, of_args, level)
            parts = [unwrap_batched(tangent, level) for tangent in _several(raw)]
        out: list[Any] = []
        for number, (tangent, lies) in enumerate(parts):
            dim = batch.out_dims[number] if number < len(batch.out_dims) else None
            out.append(tangent if dim is None or tangent is None else along(tangent, lies, dim, level.size))
        return tuple(out) if isinstance(raw, tuple) else out[0]


def _jvp_of_batch(of: type[Function], example: FunctionNode, tangents: Sequence[Any], level: VmapLevel) -> Any:
    """Return what a user's jvp returns on batched tensors; `level` is open."""
    here = state.here
    path: Any = here.stream
    try:
        with running_with(here, (*path, EXAMPLES)):
            return of.jvp(example, *tangents)
    except BatchedDraw:
        saved, several, made = example.saved_tensors, False, list[tuple[Any, ...]]()
        for number in range(max(level.size, 1)):
            with outside_vmap_level(level):
                one = picked_node(example, saved, level, number)
                with running_with(here, path_for_example(path, number, level.randomness)):
                    raw = of.jvp(one, *[picked_example(tangent, level, number) for tangent in tangents])
            several = isinstance(raw, tuple)
            made.append(_several(raw))
        with outside_vmap_level(level):
            outs = tuple([stack_gradients(parts, level) for parts in zip(*made, strict=True)])
        return outs if several else outs[0]


def _several(raw: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)


def _describe(example: FunctionNode, ctx: Any, batch: Batch, args: tuple[Any, ...], outputs: Sequence[Any]) -> None:
    """Set flags and specs of arguments and outputs on the inner context."""
    example.needs_input_grad = _needs(ctx, batch)
    example._inputs = [(arg.shape, arg.dtype) if isinstance(arg, Tensor) else None for arg in args]
    example._input_places = tensor_devices(args)
    example._metas = [(out.shape, out.dtype) if isinstance(out, Tensor) else None for out in outputs]
    if ctx._edges:
        example._edges = [None if place is None else ctx._edges[1 + place] for place in batch.places()]


def _needs(ctx: Any, batch: Batch) -> tuple[bool, ...]:
    flags = ctx.needs_input_grad
    return tuple([place is not None and flags[1 + place] for place in batch.places()])


def _copy_attributes(example: FunctionNode, ctx: Any, level: VmapLevel) -> dict[str, int | None]:
    """Copy the attributes that the user set on the inner context to the outer one (CX-02); return their batch
    dimensions.

    Raises:
        RuntimeError: an attribute has a reserved name (VM-13).
    """
    dims: dict[str, int | None] = {}
    for name, value in example._attributes().items():
        if isinstance(value, InnerContext):
            continue  # the Function is itself a generated rule: it stays with its context
        if name.startswith(RESERVED):
            raise AutogradError(
                f"names of attributes of ctx that begin with '{RESERVED}' are reserved for generated vmap rules: "
                f"rename ctx.{name} to avoid a name collision"
            )
        whole, dims[name] = unwrap_batched(value, level)
        setattr(ctx, name, whole)
    return dims


def _inner_context(ctx: Any, kept: InnerContext, dims: Sequence[int | None]) -> FunctionNode:
    """Return the inner context for backward or jvp, with its saved tensors batched again."""
    batch, before = kept.batch, kept.context
    example = object.__new__(type(before))
    example.__dict__.update(before.__dict__)
    example.needs_input_grad = _needs(ctx, batch)
    saved = batch.wrapped(ctx.saved_tensors, dims) if dims else ()
    example._saved = [None if tensor is None else SavedSlot(VALUE, -1, tensor, UNSHARED, 0) for tensor in saved]
    attributes = ctx._attributes()
    for name, dim in kept.attributes.items():
        value = attributes.get(name)
        setattr(example, name, batched(value, dim, batch.level) if isinstance(value, Tensor) else value)
    return example


def _for_input(grad: Tensor, lies: int | None, dim: int | None, size: int) -> Tensor:
    """Return the gradient of an input of all examples from the gradient of a batched input."""
    if dim is None:
        return grad if lies is None else ops.sum(grad, lies)
    return along(grad, lies, dim, size)
