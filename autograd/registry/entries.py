"""Entries of the op registry: an op's derivative (`AutogradConfig`), a user's kernel, and validation of their fields.

The tables that hold them are in `registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import dtypes

if TYPE_CHECKING:
    from .registry import Op

ANY = "*"
DEVICES = ("cpu", "cuda")

OUTPUT = -1
"""In `saves`: the (first) output; -2 is the second, and so on."""


OpCallable = (
    Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any, Any], Any]
)
"""A kernel or a shape rule in the row of an op: by arity, since type checkers infer a lambda's parameters from that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutogradConfig:
    """The derivative of one op for one device and dtype.

    Attributes:
        op: the op's name.
        device: "cpu", "cuda", or "*" for any.
        dtype: the compute dtype the entry is for; "*" or None (the default) for any.
        setup_context: `setup_context(ctx, inputs, output, meta=None)`, called after forward when it is recorded;
            `inputs` maps names to values, `meta` is what the kernel handed back besides its result.
        backward: `backward(ctx, grad_output)`: gradients by input name (a mapping), one bare gradient for ops of one
            input, or a tuple in declared order; None where there is none. With several outputs `grad_output` is a
            tuple.
        saves: instead of `setup_context`, what to keep: operand names ("a" and "b" are the first and second of an op
            of one or two), "output", "inputs", or "none"; the rule reads them in that order from `ctx.saved_tensors`.
            By default the inputs of an op of one or two operands, else nothing.
        saved_for: for some of `saves`, the operand whose gradient alone needs it: where that gradient is not wanted,
            it is not kept, and the rule finds None in its place.
        saved_beside: for some of `saves`, the operand that has to be a tensor: beside a number it is not kept.
        detachable: given (shape, dtype) of each operand, the positions of those that may be detached in place after
            they were saved (CX-32), as if views of them had been. By default none may.
    """

    op: str
    device: str
    backward: Callable[[Any, Any], Any]
    dtype: Any = None
    setup_context: Callable[..., Any] | None = None
    saves: str | tuple[str, ...] | None = None
    saved_for: Mapping[str, str] | None = None
    saved_beside: Mapping[str, str] | None = None
    detachable: Callable[[Sequence[Any]], Sequence[int]] | None = None


class Derivative:
    """A registered `AutogradConfig`, resolved against the op's declaration."""

    __slots__ = ("backward", "config", "crossed", "gates", "key", "saves", "setup_context")

    def __init__(self, config: AutogradConfig, op: Op) -> None:
        self.config = config
        self.backward = config.backward
        self.setup_context = config.setup_context
        self.saves = _resolve_saves(config, op)
        self.gates = _resolve_gates(config, op, self.saves)
        """Beside `saves`: the operand whose gradient needs it, None if any does; all None as (). Counted from the end,
        the operand beside which it is saved."""
        self.crossed = self.saves == (0, 1) and self.gates == (1, 0)
        """Of two operands, each is kept for the gradient of the other one."""
        self.key = (config.device, str(config.dtype))


class UserKernel:
    """A kernel that a user registered. Called as any other it returns the result alone.

    Attributes:
        run: the user's function.
        returns_meta: it returns (result, meta); `setup_context` is given the latter.
    """

    __slots__ = ("returns_meta", "run")

    def __init__(self, run: Callable[..., Any], returns_meta: bool) -> None:
        self.run = run
        self.returns_meta = returns_meta

    def __call__(self, *args: Any) -> Any:
        result = self.run(*args)
        return result[0] if self.returns_meta else result


def check_device(device: str) -> None:
    if device != ANY and device not in DEVICES:
        raise ValueError(f"unknown device '{device}'; known: {', '.join((*DEVICES, ANY))}")


def dtype_name(dtype: Any) -> str:
    if dtype is None or (isinstance(dtype, str) and dtype == ANY):
        return ANY
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = ""
    if name not in dtypes.known():
        raise ValueError(f"unknown dtype '{dtype}'; known: {', '.join((*dtypes.known(), ANY))}")
    return name


def _resolve_saves(config: AutogradConfig, op: Op) -> tuple[int, ...]:
    """Return what a derivative keeps as operand positions (>= 0) and outputs (-1 for the first)."""
    if config.setup_context is not None:  # it says itself what is saved
        return ()
    names = config.saves
    few = len(op.operands) <= 2 and not any(name.startswith("*") for name in op.operands)
    if names == "none" or (names is None and not few):
        return ()
    if names == "inputs" or names is None:
        return tuple(range(len(op.operands)))
    if isinstance(names, str):
        names = (names,)
    return tuple(_position(name, op) for name in names)


def _resolve_gates(config: AutogradConfig, op: Op, saves: tuple[int, ...]) -> tuple[int | None, ...]:
    wanted = {_position(name, op): _position(operand, op) for name, operand in (config.saved_for or {}).items()}
    for name, operand in (config.saved_beside or {}).items():
        wanted[_position(name, op)] = _position(operand, op) - len(op.operands)
    if not wanted:
        return ()
    return tuple(wanted.get(position) for position in saves)


_SHORT = ("a", "b")
"""What the operands of unary and binary ops are called besides their names (AC-12)."""


def _position(name: str, op: Op) -> int:
    if name == "output":
        return OUTPUT
    if name.startswith("output"):
        return -1 - int(name[len("output") :])
    if name not in op.operands and name in _SHORT[: len(op.operands)] and len(op.operands) <= len(_SHORT):
        return _SHORT.index(name)
    try:
        return op.operands.index(name)
    except ValueError:
        raise ValueError(f"'{op.name}' has no operand '{name}'; it has {', '.join(op.operands)}") from None
