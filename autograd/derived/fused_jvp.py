"""A Function class that runs a user's forward and jvp together: forward mode of Functions in a session (FW-06, DR-10).

Its forward runs the user's forward, setup_context and jvp on the worker; its outputs are the Function's outputs and
their tangents. Its derivatives run the same again on a local tape. Eager calls go through `forward_mode.function_jvp`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, cast
from weakref import WeakKeyDictionary

from raygrad.errors import MissingDerivative

from .. import ops
from ..core.modes import running_user_code, state
from ..core.random_streams import TANGENTS, Path, current_stream
from ..dispatch.random_numbers import drawn_alike
from ..forward_ad import dual_at_level
from ..forward_mode.tangents import LocalAliasNode
from ..functions.function import Function, apply_with_tangents
from ..functions.function_class_api import unwritten_jvp
from ..functions.function_traits import may_mark
from ..nodes.node import Node
from ..tensor.tangent_levels import TangentLevel, active_levels, open_tangent_level
from ..tensor.tensor import Tensor
from ..transforms.common import InputAliases
from ..transforms.reverse import gradients
from ..vmap.batched_call import example_of, stacked_examples

Request = tuple[int, tuple[bool, ...], bool, dict[str, Any]]
"""(number of arguments, which of them carry a tangent, whether jvp runs with recording on, keyword-only arguments)."""

ONE_IN_A_TUPLE = "one output, in a tuple"
"""Marker behind the outputs that distinguishes a tuple of one output from one output."""


class FusedJvp(Function):
    """The base of the derived classes: `apply(request, *args, *tangents)` returns the outputs, then their tangents.

    A Function that may change arguments in place is given copies of both, twice: those that it may change, and those
    that are saved, so that it can run again.
    """

    _of: type[Function]

    @classmethod
    def forward(cls, ctx: Any, request: Request, *items: Any) -> Any:
        """Run the Function and its jvp."""
        args, tangents = _parted(request, items)
        kept = _kept(request, items)
        before = state.grad
        state.grad = request[2]
        try:
            with nullcontext() if kept is items else _no_leaves(items):
                node, raw, results, moved = _run(cls._of, args, tangents, request[3], ctx._path)
        finally:
            state.grad = before
        ctx.set_materialize_grads(False)
        ctx.request = request
        ctx.constants = tuple([None if isinstance(item, Tensor) else item for item in kept])
        ctx.save_for_backward(*[item if isinstance(item, Tensor) else None for item in kept])
        ctx.save_for_forward(*[item if isinstance(item, Tensor) else None for item in kept])
        outputs = cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)
        dirty = [arg for arg in args if any(arg is d for d in node.dirty_tensors or ())]
        ctx.copies = 0 if kept is items else len(kept)
        ctx.overwritten = bool(dirty)
        if dirty:
            ctx.mark_dirty(*dirty, *[t for t in tangents if t is not None and any(t is m for m in moved)])
        values = [_plain(output, result, args) for output, result in zip(outputs, results, strict=True)]
        alongside = [None if t is None else _plain(t, t, tangents) for t in moved]
        ctx.mark_non_differentiable(*[values[number] for number in node._barren])
        marker = (ONE_IN_A_TUPLE,) if isinstance(raw, tuple) and len(outputs) == 1 else ()
        return (*values, *alongside, *marker)

    @classmethod
    def vmap(cls, info: Any, in_dims: Any, request: Request, *items: Any) -> Any:
        """Run both for one example after the other: a session spreads these over the workers."""
        size = info.batch_size
        dims = [dim if isinstance(item, Tensor) else None for item, dim in zip(items, in_dims[1:], strict=True)]
        copied = len(items) - len(_kept(request, items))
        one_for_all = all(dim is None for dim in dims[: request[0]])  # the outputs are those of any example
        first: list[Any] = []
        made: list[Sequence[Any]] = []
        if info.randomness == "error":
            current_stream(state.here).refuse_draws()
        elif info.randomness == "different" and one_for_all:
            current_stream(state.here).refuse_draws(TANGENTS)
        with drawn_alike(info.randomness == "same") as again:
            for number in range(max(size, 1)):
                again()
                given = [x if d is None else example_of(x, d, number, size) for x, d in zip(items, dims, strict=True)]
                given[:copied] = [_copied(item) for item in given[:copied]]
                first = first or given
                made.append(cls.apply(request, *given))
        outs: list[Any] = []
        out_dims: list[int | None] = []
        for number, parts in enumerate(zip(*made, strict=True)):
            out, dim = parts[0], None
            if isinstance(out, Tensor) and not (one_for_all and number < len(made[0]) // 2):
                out, dim = stacked_examples(parts, size), 0
            place = _place_of(parts[0], first[:copied])
            if place is not None:  # changed in place
                dim = None if dim is None else dims[place]
                out = items[place].copy_(out if not dim else ops.movedim(out, 0, dim))
            outs.append(out)
            out_dims.append(dim)
        return tuple(outs), tuple(out_dims)

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> Any:
        """Run the Function and its jvp again on a local tape, and pull the gradients back."""
        items = _items(ctx)
        places = [i for i, item in enumerate(items) if isinstance(item, Tensor) and item.dtype.kind in "fc"]
        aliases = InputAliases()
        before = state.grad
        state.grad = True
        try:
            local = [aliases.of(item) if place in places else item for place, item in enumerate(items)]
            given = [_copied(item) for item in local] if ctx.copies else local
            outputs = _outputs(cls._of, ctx.request, given, _path_of(ctx))
        finally:
            state.grad = before
            aliases.close()
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=False) if isinstance(o, Tensor) and g is not None]
        found = gradients([o for o, _ in pairs], [local[p] for p in places], [g for _, g in pairs], None)
        arrived = dict(zip(places, found, strict=True))
        return (None, *[None] * ctx.copies, *[arrived.get(place) for place in range(len(items))])

    @classmethod
    def jvp(cls, ctx: Any, *tangents: Any) -> Any:
        """Run the Function and its jvp again with tangents of a level of their own: forward mode over forward mode."""
        if ctx.overwritten:
            raise MissingDerivative(
                f"{cls.__name__} changes its input in place, and was applied in forward mode in a session: another "
                "level of forward mode cannot go through it there. Apply it outside of the session, or write its "
                "forward out of place"
            )
        items = _items(ctx)
        moved = tangents[1 + ctx.copies :]
        with open_tangent_level() as level:
            local = [_carrying(level, item, tangent) for item, tangent in zip(items, moved, strict=True)]
            outputs = _outputs(cls._of, ctx.request, local, _path_of(ctx))
            return tuple([level.of(o) if isinstance(o, Tensor) else None for o in outputs])


def _place_of(value: Any, items: Sequence[Any]) -> int | None:
    """Return which of the items a tensor is, None if it is none of them."""
    return next((i for i, item in enumerate(items) if item is value and isinstance(item, Tensor)), None)


def _parted(request: Request, items: Sequence[Any]) -> tuple[tuple[Any, ...], list[Tensor | None]]:
    count, present, *_ = request
    given = iter(items[count : count + sum(present)])
    return tuple(items[:count]), [next(given) if there else None for there in present]


def _kept(request: Request, items: Sequence[Any]) -> Sequence[Any]:
    """Return the arguments and tangents that a run saves: the second copies, if there are any."""
    return items[request[0] + sum(request[1]) :] or items


def _run(
    cls: type[Function], args: tuple[Any, ...], tangents: Sequence[Tensor | None], named: dict[str, Any], path: Path
) -> tuple[Any, Any, tuple[Any, ...], list[Tensor | None]]:
    """Apply the Function to arguments that carry tangents; return its context, forward's outputs, apply's outputs and
    their tangents."""
    with open_tangent_level() as level:
        for arg, tangent in zip(args, tangents, strict=True):
            if tangent is not None:
                level.carry(arg, tangent)
        node, raw, result = apply_with_tangents(cls, args, named, path)
        many = isinstance(raw, tuple)
        results: Any = result if many else (result,)
        return node, raw, results, [level.of(r) if isinstance(r, Tensor) else None for r in results]


def _outputs(cls: type[Function], request: Request, items: Sequence[Any], path: Path) -> tuple[Any, ...]:
    args, tangents = _parted(request, items)
    _, _, results, moved = _run(cls, args, tangents, request[3], path)
    return (*results, *moved)


def _path_of(ctx: Any) -> Path:
    """Return the path of the application, which every further run of it has, too."""
    of_pass: Any = state.here.stream  # on a worker it knows: a context that has travelled does not
    return of_pass.application if ctx._path is None else ctx._path


def _plain(output: Any, result: Any, inputs: Sequence[Any]) -> Any:
    """Return an output for the derived forward: an input or a view unchanged, others without history."""
    if not isinstance(output, Tensor):
        return output
    if any(output is given for given in inputs) or output._base is not None:
        return output
    return result.detach()


def _items(ctx: Any) -> list[Any]:
    return [c if t is None else t for t, c in zip(ctx.saved_tensors, ctx.constants, strict=True)]


def _carrying(level: TangentLevel, item: Any, tangent: Tensor | None) -> Any:
    if tangent is None or not isinstance(item, Tensor):
        return item
    return dual_at_level(level, item, tangent)


def _copied(item: Any) -> Any:
    """Return a copy of a tensor, which a Function may change in place; others as they are."""
    return item.clone() if isinstance(item, Tensor) else item


@contextmanager
def _no_leaves(items: Sequence[Any]) -> Generator[None]:
    """Let a Function change in place what requires grad: on a worker tensors of the client's graph are leaves, whatever
    they are there, and the client has checked that already."""
    leaves = [item for item in items if isinstance(item, Tensor) and item._requires_grad and item.grad_fn is None]
    for leaf in leaves:
        leaf._grad_fn = LocalAliasNode(leaf)
    try:
        yield
    finally:
        for leaf in leaves:
            leaf._grad_fn, leaf.output_nr = None, 0


# ---- applying --------------------------------------------------------------------------------------------------------

_derived: WeakKeyDictionary[type[Function], type[FusedJvp]] = WeakKeyDictionary()


def fused_with_jvp(cls: type[Function]) -> type[FusedJvp]:
    """Return the class derived from a Function; it has the Function's name."""
    made = _derived.get(cls)
    if made is None:
        members = {"_of": cls, "effects": getattr(cls, "effects", False), "__module__": __name__}
        made = _derived[cls] = cast("Any", type(FusedJvp))(cls.__name__, (FusedJvp,), members)
    return made


def _may_change(cls: type[Function]) -> bool:
    """Tell whether the user's Function may change arguments in place."""
    while issubclass(cls, FusedJvp):
        cls = cls._of
    return may_mark(cls)


def _carry_alike(level: TangentLevel, items: Sequence[Any], request: Request) -> None:
    """Let copies of the arguments carry the copies of their tangents, behind them in `items`: derivatives along these
    go through what a backward reads."""
    args, tangents = _parted(request, items)
    for arg, tangent in zip(args, tangents, strict=True):
        if tangent is not None:
            level.carry(arg, tangent)


def _written_back(items: Sequence[Any], copies: Sequence[Any], found: Sequence[Any]) -> list[Any]:
    """Return outputs and tangents: for copies that were changed in place, the `items` with their values."""
    results: list[Any] = []
    for result in found:
        place = _place_of(result, copies)
        results.append(result if place is None else items[place].copy_(result))
    return results


def apply_with_jvp(cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Apply a Function in a session to arguments that carry tangents; return the outputs with their tangents.

    Raises:
        NotImplementedError: the Function has no jvp.
    """
    if cls.jvp is Function.jvp:
        unwritten_jvp(None)
    levels: tuple[TangentLevel, ...] = state.forward
    tangents: list[Tensor | None] = []
    depth = len(levels)
    while not any(t is not None for t in tangents):  # the innermost level of which there is a tangent
        depth -= 1
        tangents = [levels[depth].of(arg) if isinstance(arg, Tensor) else None for arg in args]
    level = levels[depth]
    request = (len(args), tuple([t is not None for t in tangents]), state.grad, named)
    items = [*args, *[t for t in tangents if t is not None]]
    with active_levels(levels[:depth]):
        fused = fused_with_jvp(cls)
        if _may_change(cls):
            copies, kept = [_copied(item) for item in items], [_copied(item) for item in items]
            _carry_alike(level, kept, request)
            made: Any = fused.apply(request, *copies, *kept)
            with running_user_code():
                found: Any = _written_back(items, copies, made)
        else:
            found = fused.apply(request, *items)
    as_tuple = len(found) > 2 or not found
    if len(found) % 2:
        found = found[:-1]
    half = len(found) // 2
    results = found[:half]
    for result, tangent in zip(results, found[half:], strict=True):
        if isinstance(result, Tensor) and tangent is not None:
            level.carry(result, tangent)
    node: Node | None = next((r.grad_fn for r in results if isinstance(r, Tensor) and r.grad_fn is not None), None)
    if node is not None:
        cast("Any", node)._output_tangents = [r._tangents if isinstance(r, Tensor) else None for r in found]
    return results if as_tuple else results[0]
