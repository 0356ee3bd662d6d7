"""Evaluation of the derivative rule (vjp) of a built-in op, on bare arrays or on tensors, by the same rule.

Nodes and workers call `vjp_arrays`; nodes call `vjp_tensors` where the gradient is itself differentiated. Gradients
are summed down to the shape of their operand and converted to its dtype here. Nothing here knows graph or engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np

from raygrad.errors import AutogradError

from ..core.catalogue import ops
from ..devices.serving import as_kernel_result

if TYPE_CHECKING:
    from .registry import Derivative, Op, OpCallable

Meta = tuple[tuple[int, ...], Any]
"""(shape, dtype) of an operand or an output."""


_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray


_enter: Callable[[Any], Any]
_leave: Callable[[Any], Any]
_ignoring: Any
try:
    from numpy._core.umath import _extobj_contextvar, _make_extobj
except ImportError:  # not public, and so perhaps gone: NumPy's own context manager does the same in twice the time

    def _enter_errstate(_: Any) -> Any:
        entered = np.errstate(all="ignore")
        entered.__enter__()
        return entered

    def _leave_errstate(entered: Any) -> None:
        entered.__exit__(None, None, None)

    _enter, _leave, _ignoring = _enter_errstate, _leave_errstate, None
else:
    _enter, _leave, _ignoring = _extobj_contextvar.set, _extobj_contextvar.reset, _make_extobj(all="ignore")


def quiet(kernel: OpCallable) -> Callable[..., Any]:
    """Return a kernel or a rule that gives infinities and NaNs without NumPy's warnings, as PyTorch does."""
    enter, leave, ignoring = _enter, _leave, _ignoring
    run: Any = kernel

    def silent(*args: Any) -> Any:
        token = enter(ignoring)
        try:
            return run(*args)
        finally:
            leave(token)

    def silent_unary(a: Any) -> Any:
        token = enter(ignoring)
        try:
            return run(a)
        finally:
            leave(token)

    def silent_binary(a: Any, b: Any) -> Any:
        token = enter(ignoring)
        try:
            return run(a, b)
        finally:
            leave(token)

    if isinstance(kernel, np.ufunc):
        return silent_unary if kernel.nin == 1 else silent_binary
    return silent


_type: Any = type
"""Which the type checker does not see through: a rule may return anything."""


class RuleContext(Protocol):
    """What a rule is given as `ctx`: the node of an op itself, or an `OpContext`, which has the same."""

    @property
    def saved_tensors(self) -> Sequence[Any] | None: ...
    @property
    def params(self) -> tuple[Any, ...]: ...
    @property
    def needs_input_grad(self) -> Sequence[Any]: ...
    @property
    def inputs(self) -> Sequence[Meta | None]: ...
    @property
    def outputs(self) -> Sequence[Meta | None]: ...


class OpContext(NamedTuple):
    """Residuals, parameters, and what is wanted."""

    saved_tensors: Sequence[Any]
    """The residuals in the order that the entry declares; arrays or tensors, as the gradient is."""
    params: tuple[Any, ...]
    """The op's static parameters."""
    needs_input_grad: Sequence[Any]
    """Per operand, whether its gradient is wanted."""
    inputs: Sequence[Meta | None]
    """Per operand (shape, dtype), None for numbers."""
    outputs: Sequence[Meta]
    """Per output (shape, dtype)."""


def vjp_arrays(op: Op, rule: Derivative, ctx: RuleContext, grads: Sequence[Any]) -> Sequence[Any]:
    """Return one gradient per operand (None where undefined or unwanted), from bare arrays.

    Each gradient has its operand's shape and dtype: larger ones are summed down (BW-07), dtypes converted (BW-08).
    """
    token = _enter(_ignoring)
    try:
        needs, inputs = ctx.needs_input_grad, ctx.inputs
        result: Any = rule.backward(ctx, grads[0] if op.outputs == 1 else tuple(grads))
        count = len(inputs)
        given: Any
        kind = _type(result)
        if count == 1 and kind is _ARRAY and (meta := inputs[0]) is not None:
            if result.shape == meta[0] and result.dtype is meta[1] and needs[0]:
                return (result,)  # of one operand, and as it should be: nearly always
            given = (result,)
        elif kind is tuple and len(result) == count:
            if count == 2:  # the same of two: most of what is not of one
                first, second = result
                meta, other = inputs
                need, another = needs
                if (
                    type(first) is not _ARRAY
                    or not need
                    or meta is None
                    or first.dtype is not meta[1]
                    or first.shape != meta[0]
                ):
                    first = _as_operand(first, meta, need)
                if second is first and other is meta and another:
                    return first, first
                if (
                    type(second) is not _ARRAY
                    or not another
                    or other is None
                    or second.dtype is not other[1]
                    or second.shape != other[0]
                ):
                    second = _as_operand(second, other, another)
                return first, second
            given = result
        else:
            given = by_operand(op, result, count)
        return [_as_operand(grad, meta, need) for grad, meta, need in zip(given, inputs, needs, strict=True)]
    finally:
        _leave(token)


def _as_operand(grad: Any, meta: Meta | None, need: Any) -> Any:
    """Return a gradient in the shape and dtype of its operand; None where there is none or it is not wanted."""
    if grad is None or not need or meta is None:
        return None
    shape, dtype = meta
    if grad.shape != shape:
        grad = sum_to(grad, shape)
    if grad.dtype is not dtype and grad.dtype != dtype:
        grad = (grad.real if grad.dtype.kind == "c" and dtype.kind != "c" else grad).astype(dtype)
    return grad if type(grad) is _ARRAY else as_kernel_result(grad)


def vjp_tensors(op: Op, rule: Derivative, ctx: RuleContext, grads: Sequence[Any]) -> list[Any]:
    """Return one gradient per operand as tensors, recorded for further differentiation."""
    needs, inputs = ctx.needs_input_grad, ctx.inputs
    result: Any = rule.backward(ctx, grads[0] if op.outputs == 1 else tuple(grads))
    out: list[Any] = []
    for i, grad in enumerate(by_operand(op, result, len(inputs))):
        meta = inputs[i]
        if grad is None or meta is None or not needs[i]:
            out.append(None)
            continue
        if grad.shape != meta[0]:
            grad = sum_to(grad, meta[0])
        if grad.dtype != meta[1]:
            grad = grad.real.to(meta[1]) if grad.dtype.kind == "c" and meta[1].kind != "c" else grad.to(meta[1])
        out.append(grad)
    return out


def sum_to(grad: Any, shape: tuple[int, ...]) -> Any:
    """Return `grad`, an array or a tensor, summed down to `shape`, which must broadcast to its shape.

    Raises:
        AutogradError: it does not.
    """
    lead = len(grad.shape) - len(shape)
    axes = (
        [*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 and grad.shape[i + lead] != 1)]
        if lead >= 0
        else []
    )
    reduced = tuple(1 if i in axes else n for i, n in enumerate(grad.shape))[max(lead, 0) :]
    if lead < 0 or reduced != tuple(shape):
        raise AutogradError(f"expected shape {tuple(shape)} but got {tuple(grad.shape)}")
    grad = ops.sum(grad, dim=tuple(axes), keepdim=True) if axes else grad
    return ops.reshape(grad, shape) if lead else grad


class NamedOp(Protocol):
    """What has a name and operands: an op, or what stands for one."""

    @property
    def name(self) -> str: ...
    @property
    def operands(self) -> tuple[str, ...]: ...


def by_operand(op: NamedOp, result: Any, count: int) -> Sequence[Any]:
    """Return what a rule returned as one entry per operand (AC-10)."""
    if isinstance(result, Mapping):
        named = dict(cast("Mapping[str, Any]", result))
        given: list[Any] = []
        for name in op.operands:
            if name.startswith("*"):
                given.extend(named.pop(name[1:], None) or [None] * (count - len(given)))
            else:
                given.append(named.pop(name, None))
        if named:
            raise AutogradError(
                f"the backward of '{op.name}' returned gradients for unknown inputs {sorted(named)}; "
                f"it has {op.operands}"
            )
    elif isinstance(result, tuple):
        given = list(cast("tuple[Any, ...]", result))
    else:
        return (result, *[None] * (count - 1))
    if len(given) != count:
        raise AutogradError(
            f"the backward of '{op.name}' returned an incorrect number of gradients "
            f"(expected {count}, got {len(given)})"
        )
    return given
