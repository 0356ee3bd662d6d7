"""Forward mode through a user's Function: the call of its jvp at each open level, and the checks on its tangents (FW-06
to FW-12).

Called by `apply` after forward, when an argument carries a tangent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from raygrad.errors import AutogradError

from .. import ops
from ..core.batched_data import Batched
from ..core.modes import running_user_code, state
from ..core.random_streams import JVP
from ..forward_ad import check_size
from ..mutation.inplace_tangents import begin
from ..saved.saved_slots import UNSHARED, VALUE, SavedSlot
from ..storage.version_counter import was_changed
from ..tensor.tangent_levels import TangentLevel, active_levels, carries_tangent
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from ..functions.context import FunctionNode


def propagate(node: FunctionNode, args: tuple[Any, ...], raw: Any, result: Any) -> None:
    """Set the tangents of apply's outputs, where an argument carries one.

    Args:
        node: the context that forward was given.
        args: the arguments of forward.
        raw: what forward returned.
        result: what apply is about to return.

    Raises:
        NotImplementedError: the Function has no jvp.
        RuntimeError: jvp returned tangents of the wrong number, type or shape, a view that is none of the given
            tangent, or another tangent than the one it had to change in place; or it left that one as it was.
    """
    if not any(isinstance(arg, Tensor) and carries_tangent(arg) for arg in args):
        return
    levels: tuple[TangentLevel, ...] = state.forward
    outputs = cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)
    results = cast("tuple[Any, ...]", result) if isinstance(raw, tuple) else (result,)
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    carrying = [depth for depth, level in enumerate(levels) if any([level.of(arg) is not None for arg in tensors])]
    try:
        for position, depth in enumerate(carrying):
            level, further_in = levels[depth], len(carrying) - 1 - position
            with active_levels(levels[:depth]):
                given = [_jvp_argument(node, arg, level) for arg in args]
                written = _versions_to_change(node, args, given)
                found = _jvp_results(node, _jvp(node, args, outputs, results, given, further_in), len(outputs))
                _check_changed(node, given, written)
                for number, tangent in enumerate(found):
                    _set_tangent(node, level, number, tangent, args, given, outputs[number], results[number])
    finally:
        node.saved_for_forward = None
    tangents = [r._tangents if isinstance(r, Tensor) else None for r in results]
    if any(tangents):
        node._output_tangents = tangents


def _jvp_argument(node: FunctionNode, arg: Any, level: TangentLevel) -> Tensor | None:
    """Return the tangent that jvp gets for an argument: its own, zeros or None (FW-06)."""
    if not isinstance(arg, Tensor) or arg.dtype.kind not in "fc":
        return None
    tangent = level.of(arg)
    if tangent is None and node.materialize_grads:
        if _among(arg, _dirty(node)):
            begin(level, arg)
            return level.of(arg)
        return ops.zeros_as(arg).detach()
    return tangent


def _jvp(
    node: FunctionNode,
    args: tuple[Any, ...],
    outputs: tuple[Any, ...],
    results: tuple[Any, ...],
    given: Sequence[Tensor | None],
    further_in: int,
) -> Any:
    """Call the user's jvp at a level. Its `saved_tensors` are the arguments of `save_for_forward`, with outputs as
    apply returns them, so that results computed from them can be differentiated again. Its random stream is named by
    the number of levels `further_in` that carry tangents, too: a session runs the innermost one by itself."""

    def shown(saved: Any) -> Any:
        if isinstance(saved, Tensor) and not _among(saved, args):
            for output, result in zip(outputs, results, strict=True):
                if output is saved:
                    return result
        return saved

    here = state.here
    kept, before, outer = node._saved, here.grad, here.stream
    assert node._path is not None
    here.stream = (*node._path, JVP, further_in)
    node._saved = [
        None if saved is None else SavedSlot(VALUE, -1, shown(saved), UNSHARED, 0)
        for saved in node.saved_for_forward or ()
    ]
    try:
        with running_user_code():
            return node._function.jvp(node, *given)
    finally:
        here.grad, here.stream = before, outer
        node._saved = kept


def _jvp_results(node: FunctionNode, result: Any, expected: int) -> Sequence[Tensor | None]:
    """Return jvp's results, one entry per output (FW-08)."""
    given = cast("tuple[Any, ...]", result) if isinstance(result, tuple) else (result,)
    name = node._function.__name__
    if len(given) != expected:
        raise AutogradError(
            f"Function's jvp returned an invalid number of forward gradients (expected {expected} but got "
            f"{len(given)}): {name}.jvp returns one per output of forward, in a tuple if there are several"
        )
    out: list[Tensor | None] = []
    for number, tangent in enumerate(given):
        if isinstance(tangent, np.ndarray | np.generic):
            tangent = Tensor.made(np.asarray(cast("Any", tangent)))
        if tangent is not None and not isinstance(tangent, Tensor):
            raise AutogradError(
                f"expected Variable or None (got {type(tangent).__name__}) for grad output {number} of {name}.jvp"
            )
        out.append(tangent)
    return out


def _set_tangent(
    node: FunctionNode,
    level: TangentLevel,
    number: int,
    tangent: Tensor | None,
    args: tuple[Any, ...],
    given: Sequence[Tensor | None],
    output: Any,
    result: Any,
) -> None:
    """Check the tangent of one output, and set it (FW-08 to FW-12)."""
    if not isinstance(output, Tensor):
        return
    if output.dtype.kind not in "fc" or _among(output, node.non_differentiable):
        if tangent is not None:
            raise AutogradError(
                f"Function's jvp returned a gradient at position {number}, but the corresponding forward output is "
                f"not a differentiable Tensor. {node._function.__name__}.jvp should return None at that position "
                "instead."
            )
        return
    position = next((k for k, arg in enumerate(args) if arg is output), None)
    if position is not None and _among(output, _dirty(node)):
        if tangent is not given[position]:
            raise _not_in_place(node)
    elif tangent is not None:
        if position is None and output._base is not None:
            position = next(
                (
                    k
                    for k, arg in enumerate(args)
                    if isinstance(arg, Tensor) and (output._base is arg or output._base is arg._base)
                ),
                None,
            )
        if position is not None and given[position] is not None:
            _check_view(tangent, cast("Tensor", given[position]))
    if tangent is not None:
        check_size(output, tangent)
        level.carry(result, tangent)


def _versions_to_change(node: FunctionNode, args: Sequence[Any], given: Sequence[Tensor | None]) -> dict[int, int]:
    """Return the versions of the tangents that jvp has to change in place, by position of their arguments."""
    if not _dirty(node):
        return {}
    return {
        position: int(tangent.counter()[0])
        for position, (arg, tangent) in enumerate(zip(args, given, strict=True))
        if tangent is not None and _among(arg, _dirty(node))
    }


def _check_changed(node: FunctionNode, given: Sequence[Tensor | None], versions: dict[int, int]) -> None:
    """Raise unless jvp has changed the tangents of the arguments that forward changed in place (FW-12)."""
    for position, version in versions.items():
        tangent = given[position]
        if tangent is not None and not was_changed(tangent.counter(), version):
            raise _not_in_place(node)


def _not_in_place(node: FunctionNode) -> AutogradError:
    return AutogradError(
        "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying "
        "an input inplace, then the jvp function must modify the corresponding gradient inplace, and return it: "
        f"{node._function.__name__}.jvp does not"
    )


def _check_view(tangent: Tensor, given: Tensor) -> None:
    """Raise unless a tangent is a view of the tangent given for the viewed argument (FW-11). What a vmap rule returned
    for one example is a view where that of all examples is."""
    while tangent._base is None and type(tangent._data) is Batched and type(given._data) is Batched:
        if tangent._data.level is not given._data.level:
            break
        tangent, given = tangent._data.value, given._data.value
    if tangent._base is None or tangent is given:
        raise AutogradError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
        )
    if given._base is None and tangent._base is not given:
        raise AutogradError(
            "A custom Function is returning a view but the jvp is not returning a view of the given grad input."
        )
    if given._base is not None and tangent._base is not given._base:
        raise AutogradError(
            "A custom Function is returning a view but the jvp is not returning a view of the same base as the given "
            "grad input."
        )


def _dirty(node: FunctionNode) -> Any:
    return node.dirty_tensors


def _among(tensor: Tensor, others: Any) -> bool:
    return any(other is tensor for other in others or ())
