"""Calls of users' hooks on gradients: what a hook is shown, and the checks on what it returns (HK-02, HK-03, ND-09).

`traversal` calls hooks through it, and so do workers for recorded hooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from raygrad.errors import AutogradError
from raygrad.tracebacks import attribute_of

from ..core.recorder import Data
from ..nodes.closed_session import settle
from ..tensor.tensor import Tensor


def call_hook(kind: str, hook: Any, values: Sequence[Tensor | None], beside: Sequence[Tensor | None] = ()) -> list[Any]:
    """Call a user's hook and return `values`, replaced by what it returned.

    Args:
        kind: "tensor" (one value), "pre" (gradients of outputs) or "post" (`values` are the gradients of inputs,
            `beside` those of outputs); "all" and "any": hooks over several tensors, which see `beside`.

    Raises:
        TypeError, RuntimeError: the hook returned something of the wrong type, number, dtype or shape (HK-02, ND-09).
    """
    if kind == "tensor":
        result = hook(values[0])
        return [values[0] if result is None else _checked(hook, result, values[0])]
    if kind == "all" or kind == "any":
        hook(list(beside) if kind == "all" else beside[0])
        return []
    result = hook(tuple(values)) if kind == "pre" else hook(tuple(values), tuple(beside))
    if result is None:
        return list(values)
    if not isinstance(result, tuple):
        raise TypeError(f"{_name_of(hook)}: expected tuple, but hook returned '{type(result).__name__}'")
    given = cast("tuple[Any, ...]", result)
    if len(given) != len(values):
        raise AutogradError(
            f"hook '{_name_of(hook)}' has returned an incorrect number of values "
            f"(got {len(given)}, but expected {len(values)})"
        )
    return [None if new is None else _checked(hook, new, old) for new, old in zip(given, values, strict=True)]


def _checked(hook: Any, new: Any, old: Tensor | None) -> Tensor:
    if not isinstance(new, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}' (hook '{_name_of(hook)}')")
    if old is not None and new.dtype != old.dtype:
        raise AutogradError(f"hook '{_name_of(hook)}' has changed the type of value (was {old.dtype} got {new.dtype})")
    if old is not None and new.device != old.device:
        raise AutogradError(
            f"hook '{_name_of(hook)}' has changed the type of value (was on {old.device}, got {new.device})"
        )
    if old is not None and new.shape != old.shape:
        raise AutogradError(
            f"hook '{_name_of(hook)}' has changed the size of value (was {list(old.shape)}, got {list(new.shape)})"
        )
    return settle(new)


def _name_of(hook: Any) -> str:
    return attribute_of(hook, "__name__", type(hook).__name__)


def read_only(value: Data | Tensor | None) -> Tensor | None:
    """Return a gradient as a read-only tensor with its place in the graph, for a hook (HK-03)."""
    if value is None:
        return None
    if not isinstance(value, Tensor):
        seal = Tensor.made(value)
    elif value._requires_grad and value.grad_fn is None:  # a leaf: only itself is in its place
        return value
    else:
        seal = Tensor.made(value._data, value.grad_fn, value.output_nr)
        seal.share_counter(value)
        seal._tangents = value._tangents
    seal._frozen = True
    return seal
