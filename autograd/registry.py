"""The public registry of ops: declarations, kernels per (op, device, dtype), and derivatives.

Rules of this file: it knows names and tables, no tensors. Built-in ops come through the same three doors as a
user's: `declare`, `register_kernel`, `register_autograd`. The most specific entry wins (AC-05).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raygrad.errors import GraphError, MissingDerivative

from . import dtypes

ANY = "*"
DEVICES = ("cpu", "cuda")

Kernel = Callable[..., Any]
"""kernel(*operands, *params) -> array or tuple of arrays; operands are bare arrays or Python constants."""

InferRule = Callable[..., Any]
"""infer(params, *operands) -> (shape, dtype), or a list of such for several outputs. Operands have `.shape`,
`.dtype`, `.ndim`, or are Python constants. Raises ShapeError where operands do not fit."""

OUTPUT = -1
"""In `saves`: the (first) output; -2 is the second, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutogradConfig:
    """The derivative of one op for one device and dtype.

    Attributes:
        op: the op's name.
        device: "cpu", "cuda", or "*" for any.
        dtype: the compute dtype the entry is for; "*" (the default) for any.
        setup_context: `setup_context(ctx, inputs, output, meta=None)`, called after forward; `inputs` maps names to
            values.
        backward: `backward(ctx, grad_output)`: gradients by input name (a mapping), one bare gradient for ops of one
            input, or a tuple in declared order; None where there is none. With several outputs `grad_output` is a
            tuple.
        saves: instead of `setup_context`, what to keep: operand names, "output", "inputs", or "none"; the rule reads
            them in that order from `ctx.saved_tensors`.
        saved_for: for some of `saves`, the operand whose gradient alone needs it: where that gradient is not wanted,
            it is not kept, and the rule finds None in its place.
    """

    op: str
    device: str
    backward: Callable[[Any, Any], Any]
    dtype: Any = ANY
    setup_context: Callable[..., Any] | None = None
    saves: str | tuple[str, ...] = "inputs"
    saved_for: Mapping[str, str] | None = None


class Derivative:
    """A registered `AutogradConfig`, resolved against the op's declaration."""

    __slots__ = ("backward", "config", "gates", "key", "saves", "setup_context")

    def __init__(self, config: AutogradConfig, op: Op) -> None:
        self.config = config
        self.backward = config.backward
        self.setup_context = config.setup_context
        self.saves = _resolve_saves(config, op)
        self.gates = _resolve_gates(config, op, self.saves)
        """Beside `saves`: the operand whose gradient needs it, None if any does; all None as ()."""
        self.key = (config.device, str(config.dtype))


class Op:
    """One operation: its declaration and the tables that dispatch it.

    Attributes:
        name: the op's name.
        operands: names of the operands, in order; a name starting with "*" takes all that follow.
        outputs: how many outputs it has.
        infer: the shape rule, or None (then a session learns the result by running).
        promotes: how operands meet before the kernel: None (as they are), "arith" (PyTorch's promotion),
            "float" (promotion, integers become the default floating dtype).
        view: the output may share the first operand's memory.
    """

    __slots__ = (
        "_derivatives",
        "_kernels",
        "_memo",
        "infer",
        "name",
        "operands",
        "outputs",
        "promotes",
        "sole",
        "sole_rule",
        "view",
        "weak_numbers",
    )

    def __init__(
        self,
        name: str,
        operands: tuple[str, ...],
        *,
        outputs: int = 1,
        infer: InferRule | None = None,
        promotes: str | None = None,
        view: bool = False,
        weak_numbers: bool = True,
    ) -> None:
        self.name = name
        self.operands = operands
        self.outputs = outputs
        self.infer = infer
        self.promotes = promotes
        self.view = view
        self.weak_numbers = weak_numbers
        """True: of a number operand only its type matters to `infer` (so inference is remembered by type)."""
        self.sole: Kernel | None = None
        """The host kernel if one serves every dtype: what `sole_kernel` returns."""
        self.sole_rule: Derivative | None = None
        """The derivative if one serves every device and dtype."""
        self._kernels: dict[tuple[str, str], Kernel] = {}
        self._derivatives: dict[tuple[str, str], Derivative] = {}
        self._memo: dict[Any, Any] = {}

    def kernel(self, device: str, dtype: Any) -> Kernel:
        """Return the most specific kernel for a device and compute dtype.

        Raises:
            GraphError: there is none; names what is registered.
        """
        found = self._memo.get((device, dtype))
        if found is None:
            found = self._memo[device, dtype] = _most_specific(self._kernels, device, str(dtype))
            if found is None:
                raise GraphError(
                    f"no kernel of '{self.name}' for device {device} and dtype {dtype}; "
                    f"registered: {sorted(self._kernels)}"
                )
        return found

    def sole_kernel(self) -> Kernel | None:
        """Return the host kernel if one serves every dtype, else None: then it must be looked up by dtype."""
        return self.sole

    def derivative(self, device: str, dtype: Any) -> Derivative | None:
        """Return the most specific derivative for a device and compute dtype, or None (AC-07)."""
        key = ("vjp", device, dtype)
        if key in self._memo:
            return self._memo[key]
        found = self._memo[key] = _most_specific(self._derivatives, device, str(dtype))
        return found

    def missing(self, device: str, dtype: Any) -> MissingDerivative:
        """Return the error for an op that has no derivative for a device and dtype."""
        return MissingDerivative(
            f"derivative for '{self.name}' is not implemented for device {device} and dtype {dtype}; "
            f"registered: {sorted(self._derivatives) or 'none'}"
        )

    def add_kernel(self, device: str, dtype: str, kernel: Kernel, replace: bool) -> None:
        """Add a kernel; see `register_kernel`."""
        _add(self._kernels, (device, dtype), kernel, replace, f"a kernel of '{self.name}'")
        on_host = [key for key in self._kernels if key[0] in ("cpu", ANY)]
        self.sole = self._kernels.get(("cpu", ANY)) if len(on_host) == 1 else None
        self._memo.clear()

    def add_derivative(self, config: AutogradConfig, replace: bool) -> None:
        """Add a derivative; see `register_autograd`."""
        key = (config.device, _dtype_name(config.dtype))
        _add(self._derivatives, key, Derivative(config, self), replace, f"a derivative of '{self.name}'")
        self.sole_rule = self._derivatives.get((ANY, ANY)) if len(self._derivatives) == 1 else None
        self._memo.clear()

    def __repr__(self) -> str:
        return f"<op {self.name}({', '.join(self.operands)})>"


_ops: dict[str, Op] = {}


def declare(op: Op) -> Op:
    """Make an op known by its name.

    Raises:
        ValueError: the name is taken.
    """
    if op.name in _ops:
        raise ValueError(f"an op named '{op.name}' is declared already")
    _ops[op.name] = op
    return op


def get_op(name: str) -> Op:
    """Return a declared op.

    Raises:
        GraphError: no such op.
    """
    try:
        return _ops[name]
    except KeyError:
        raise GraphError(f"no op named '{name}' is registered here") from None


def list_ops() -> list[str]:
    """Return the names of all ops, sorted: a misspelt registration shows here."""
    return sorted(_ops)


def register_kernel(
    op: str, *, device: str = "cpu", dtype: Any = ANY, replace: bool = False
) -> Callable[[Kernel], Kernel]:
    """Return a decorator that registers a kernel for (op, device, dtype).

    Raises:
        ValueError: an unknown device or dtype, or the key is taken and `replace` is not given.
    """
    _check_device(device)
    name = _dtype_name(dtype)

    def register(kernel: Kernel) -> Kernel:
        get_op(op).add_kernel(device, name, kernel, replace)
        return kernel

    return register


def register_autograd(config: AutogradConfig, *, replace: bool = False) -> AutogradConfig:
    """Register the derivative of an op for a device and dtype (AC-01 to AC-06).

    Raises:
        ValueError: an unknown device or dtype, or the key is taken and `replace` is not given.
    """
    _check_device(config.device)
    get_op(config.op).add_derivative(config, replace)
    return config


def _most_specific(table: dict[tuple[str, str], Any], device: str, dtype: str) -> Any:
    device = device.partition(":")[0]
    for key in ((device, dtype), (ANY, dtype), (device, ANY), (ANY, ANY)):
        if key in table:
            return table[key]
    return None


def _add(table: dict[tuple[str, str], Any], key: tuple[str, str], value: Any, replace: bool, what: str) -> None:
    if key in table and not replace:
        raise ValueError(
            f"{what} for device {key[0]} and dtype {key[1]} is registered already; pass replace=True to replace it"
        )
    table[key] = value


def _check_device(device: str) -> None:
    if device != ANY and device not in DEVICES:
        raise ValueError(f"unknown device '{device}'; known: {', '.join((*DEVICES, ANY))}")


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, str) and dtype == ANY:
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
    if config.setup_context is not None:  # it is given everything, when backward runs
        if op.operands and op.operands[-1].startswith("*"):
            raise ValueError(
                f"'{op.name}' takes any number of operands: say what to keep by `saves`, not `setup_context`"
            )
        return (*range(len(op.operands)), *(-1 - number for number in range(op.outputs)))
    names = config.saves
    if names == "none":
        return ()
    if names == "inputs":
        return tuple(range(len(op.operands)))
    if isinstance(names, str):
        names = (names,)
    return tuple(_position(name, op) for name in names)


def _resolve_gates(config: AutogradConfig, op: Op, saves: tuple[int, ...]) -> tuple[int | None, ...]:
    if not config.saved_for:
        return ()
    wanted = {_position(name, op): _position(operand, op) for name, operand in config.saved_for.items()}
    return tuple(wanted.get(position) for position in saves)


def _position(name: str, op: Op) -> int:
    if name == "output":
        return OUTPUT
    if name.startswith("output"):
        return -1 - int(name[len("output") :])
    try:
        return op.operands.index(name)
    except ValueError:
        raise ValueError(f"'{op.name}' has no operand '{name}'; it has {', '.join(op.operands)}") from None
