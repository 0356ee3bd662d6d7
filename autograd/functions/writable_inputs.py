"""The `writable_inputs` option of a Function: private, writable, C-ordered copies of its inputs for Cython, ctypes and
numba.

Forward and backward work on copies; saved tensors are the originals, so a Function means the same wherever it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ..core.modes import state
from ..devices.serving import is_device_array
from ..tensor.tensor import Tensor


def copied(value: Any) -> Any:
    """Return a writable copy of a tensor in C order; other values unchanged."""
    if not isinstance(value, Tensor):
        return value
    data: Any = value._data
    if type(data) is not np.ndarray and not is_device_array(data):
        return value  # a vmap's: not an array that code of other languages could take
    copy = Tensor.made(data.copy(order="C"))
    copy._requires_grad = value._requires_grad
    return copy


def forward_on_copies(forward: Callable[..., Any], name: str, with_context: bool) -> Callable[..., Any]:
    """Return a forward that calls the user's with copies of its tensor arguments. A saved copy stands for the argument
    itself; a returned copy is a new tensor."""

    def on_copies(*args: Any, **named: Any) -> Any:
        ctx: Any = args[0] if with_context else None
        originals = args[1:] if with_context else args
        copies: dict[int, Any] = {}
        for value in originals:  # what is given twice stays one tensor
            if id(value) not in copies:
                copies[id(value)] = copied(value)
        given = [copies[id(value)] for value in originals]
        raw = forward(ctx, *given, **named) if with_context else forward(*given, **named)
        original = {id(copy): value for copy, value in zip(given, originals, strict=True) if copy is not value}
        for copy in given:
            if id(copy) in original:
                copy._requires_grad = False
        if with_context:
            if any(id(tensor) in original for tensor in ctx.dirty_tensors or ()):
                raise AutogradError(
                    f"{name}: mark_dirty says that forward changes an argument, but writable_inputs gives it copies; "
                    "remove one of the two"
                )
            ctx.to_save = _instead(ctx.to_save, original)
            ctx.saved_for_forward = _instead(ctx.saved_for_forward, original)
        return raw

    return on_copies


def _instead(saved: tuple[Any, ...] | None, original: dict[int, Any]) -> tuple[Any, ...] | None:
    """Return a saved value, with each copy replaced by its original."""
    return None if saved is None else tuple([original.get(id(tensor), tensor) for tensor in saved])


def backward_on_copies(backward: Callable[..., Any], boxed: bool) -> Callable[..., Any]:
    """Return a backward that calls the user's with copies of the gradients. While operations are recorded it gets the
    gradients themselves: a copy has no history, and their arrays cannot be taken anyway (EN-33)."""

    def on_copies(ctx: Any, *grads: Any) -> Any:
        if state.here.grad:
            return backward(ctx, *grads)
        if boxed:
            return backward(ctx, [copied(grad) for grad in grads[0]])
        return backward(ctx, *[copied(grad) for grad in grads])

    return on_copies


def saved_copies(of: property) -> property:
    """Return a `saved_tensors` property that gives copies, except while operations are recorded."""
    read: Any = of.fget

    def saved_tensors(self: Any) -> Sequence[Any]:
        saved = read(self)
        return saved if state.here.grad else tuple([copied(tensor) for tensor in saved])

    return property(saved_tensors, doc=of.__doc__)
