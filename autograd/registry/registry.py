"""Registry of ops: declarations, and kernels and derivatives per (op, device, dtype).

Dispatch and the derivative rules look them up here; the most specific entry wins (AC-05). Built-in entries
(`Op.add_kernel`, `Op.add_derivative`) exist in every process. Those of a user (`register_kernel`, `register_autograd`)
exist in one: an op that uses them is applied as a Function, which is shipped with its code (`derived/custom_op.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from raygrad.errors import GraphError, MissingDerivative

from ..devices.serving import is_device_array
from .entries import ANY, AutogradConfig, Derivative, OpCallable, UserKernel, check_device, dtype_name

Kernel = Callable[..., Any]
"""kernel(*operands, *params) -> array or tuple of arrays; operands are bare arrays or Python constants."""

Admits = Callable[[str, Sequence[Any], Any], None]
"""admits(name of the op, operands before they meet, dtype in which they meet): raises for what an op does not take."""

InferRule = Callable[..., Any]
"""infer(params, *operands) -> (shape, dtype), or a list of such for several outputs. Operands have `.shape`,
`.dtype`, `.ndim`, or are Python constants. Raises ShapeError where operands do not fit."""


MANY: Final = 0
"""The number of outputs of an op that has as many as its shape rule says, in a tuple even if it is one."""

Shown = Callable[[Sequence[Any], tuple[Any, ...], int], Any]
"""shown(operands, params, number) -> (op, operands, params): what makes the same view as output `number` does."""

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray


def by_library(host: Kernel, other: Kernel) -> Kernel:
    """Return a kernel that runs `host` for arrays of NumPy, and `other` for those of another library."""

    def kernel(*args: Any) -> Any:
        for arg in args:
            if type(arg) is _ARRAY:
                return host(*args)
            if is_device_array(arg):
                return other(*args)
        return host(*args)

    return kernel


class Op:
    """One operation: its declaration and the tables that dispatch it.

    Attributes:
        name: the op's name.
        operands: names of the operands, in order; a name starting with "*" takes all that follow.
        outputs: how many outputs it has; `MANY`: as many as its shape rule says.
        infer: the shape rule, or None (then a session learns the result by running).
        promotes: how operands meet before the kernel: None (as they are), "arith" (PyTorch's promotion),
            "float" (promotion, integers become the default floating dtype).
        admits: asked, where operands meet and are not all floating, whether the op takes them; raises if not. (An op
            of one operand meets itself: it promotes by "arith" to be asked.)
        view: the outputs may share the first operand's memory.
        shown: which other op makes the view that an output is (see `Shown`); None where this one does.
        custom: a user has registered an entry: which one serves must be asked for each application.
        applied: the Function classes made of the present entries; see `derived/custom_op.py`.
    """

    __slots__ = (
        "_derivatives",
        "_kernels",
        "_memo",
        "_user_derivatives",
        "_user_kernels",
        "admits",
        "applied",
        "bare",
        "custom",
        "infer",
        "name",
        "operands",
        "outputs",
        "params",
        "promotes",
        "result_device",
        "shown",
        "simple",
        "sole",
        "sole_rule",
        "version",
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
        shown: Shown | None = None,
        weak_numbers: bool = True,
        admits: Admits | None = None,
        params: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.operands = operands
        self.params = params
        """Names of the static parameters, where they have names."""
        self.outputs = outputs
        self.infer = infer
        self.promotes = promotes
        self.admits = admits
        self.view = view
        self.shown = shown
        self.weak_numbers = weak_numbers
        """True: of a number operand only its type matters to `infer` (so inference is remembered by type)."""
        self.sole: Kernel | None = None
        """The host kernel if one serves every dtype, and no user has registered anything."""
        self.bare: Kernel | None = None
        """The same, for arrays of which it is not known whether they are on the host."""
        self.simple: Kernel | None = None
        """The same, if besides there is one output and it shares no memory with an operand."""
        self.sole_rule: Derivative | None = None
        """The derivative if one serves every device and dtype, and no user has registered anything."""
        self.result_device: Callable[[tuple[Any, ...]], str] | None = None
        """From the params to the device of the result, where it is not that of the operands."""
        self.custom = False
        self.version = 0
        """How many times a user registered something for it."""
        self.applied: dict[Any, Any] = {}
        self._kernels: dict[tuple[str, str], Kernel] = {}
        self._derivatives: dict[tuple[str, str], Derivative] = {}
        self._user_kernels: dict[tuple[str, str], UserKernel] = {}
        self._user_derivatives: dict[tuple[str, str], Derivative] = {}
        self._memo: dict[Any, Any] = {}

    def kernel(self, device: str, dtype: Any) -> Kernel:
        """Return the most specific kernel for a device and compute dtype.

        Raises:
            GraphError: there is none; names what is registered.
        """
        found = self._memo.get((device, dtype))
        if found is None:
            found = self._memo[device, dtype] = _most_specific(self._kernels | self._user_kernels, device, str(dtype))
            if found is None:
                raise self._no_kernel(device, dtype, self._kernels | self._user_kernels)
        return found

    def has_kernel(self, device: str, dtype: Any) -> bool:
        """Tell whether there is a kernel for a device and compute dtype."""
        return _most_specific(self._kernels | self._user_kernels, device, str(dtype)) is not None

    def builtin_kernel(self, device: str, dtype: Any) -> Kernel:
        """Return raygrad's own most specific kernel: what a recorded op runs, which every process has.

        Raises:
            GraphError: there is none.
        """
        found = _most_specific(self._kernels, device, str(dtype))
        if found is None:
            raise self._no_kernel(device, dtype, self._kernels)
        return found

    def _no_kernel(self, device: str, dtype: Any, known: Any) -> GraphError:
        return GraphError(
            f"no kernel of '{self.name}' for device {device} and dtype {dtype}; registered: {sorted(known)}"
        )

    def sole_kernel(self) -> Kernel | None:
        """Return raygrad's host kernel if one serves every dtype, else None: then it must be looked up by dtype."""
        on_host = [kernel for (device, _), kernel in self._kernels.items() if device in ("cpu", ANY)]
        return on_host[0] if len(on_host) == 1 and ("cpu", ANY) in self._kernels else None

    def _for_bare_arrays(self) -> Kernel | None:
        """Return what serves bare arrays of every dtype, of which nobody has asked where they are: the host's kernel,
        or, where that of other devices is another one, what asks."""
        host = self.sole_kernel()
        other = self._kernels.get(("cuda", ANY))
        return host if host is None or other is None or other is host else by_library(host, other)

    def derivative(self, device: str, dtype: Any) -> Derivative | None:
        """Return the most specific derivative for a device and compute dtype, or None (AC-07)."""
        key = ("vjp", device, dtype)
        if key in self._memo:
            return self._memo[key]
        known = self._derivatives | self._user_derivatives
        found = self._memo[key] = _most_specific(known, device, str(dtype))
        return found

    @property
    def differentiable(self) -> bool:
        """Whether there is a derivative at all."""
        return bool(self._derivatives or self._user_derivatives)

    def builtin_derivative(self, device: str, dtype: Any) -> Derivative | None:
        """Return raygrad's own most specific derivative: what the vjp of a recorded op runs."""
        key = ("builtin vjp", device, dtype)
        if key not in self._memo:
            self._memo[key] = _most_specific(self._derivatives, device, str(dtype))
        return self._memo[key]

    def missing(self, device: str, dtype: Any) -> MissingDerivative:
        """Return the error for an op that has no derivative for a device and dtype."""
        return MissingDerivative(
            f"derivative for '{self.name}' is not implemented for device {device} and dtype {dtype}; "
            f"registered: {sorted(self._derivatives | self._user_derivatives) or 'none'}"
        )

    def add_kernel(self, device: str, dtype: str, kernel: OpCallable) -> None:
        """Add a kernel that raygrad brings."""
        _add(self._kernels, (device, dtype), kernel, False, f"a kernel of '{self.name}'")
        self._changed()

    def add_derivative(self, config: AutogradConfig) -> None:
        """Add a derivative that raygrad brings."""
        key = (config.device, dtype_name(config.dtype))
        _add(self._derivatives, key, Derivative(config, self), False, f"a derivative of '{self.name}'")
        self._changed()

    def _changed(self) -> None:
        """Find anew what is looked up often."""
        self._memo.clear()
        self.applied.clear()
        if self.custom:
            self.sole = self.bare = self.simple = self.sole_rule = None
            return
        self.sole = self.sole_kernel()
        self.bare = self._for_bare_arrays()
        self.simple = self.sole if self.outputs == 1 and not self.view else None
        self.sole_rule = self._derivatives.get((ANY, ANY)) if len(self._derivatives) == 1 else None

    def add_user_kernel(self, device: str, dtype: str, kernel: UserKernel, replace: bool) -> None:
        """Add a user's kernel; see `register_kernel`."""
        known = self._kernels | self._user_kernels
        _add(known, (device, dtype), kernel, replace, f"a kernel of '{self.name}'")
        self._user_kernels[device, dtype] = kernel
        self._customised()

    def add_user_derivative(self, config: AutogradConfig, replace: bool) -> None:
        """Add a user's derivative; see `register_autograd`."""
        key = (config.device, dtype_name(config.dtype))
        derivative = Derivative(config, self)
        _add(self._derivatives | self._user_derivatives, key, derivative, replace, f"a derivative of '{self.name}'")
        self._user_derivatives[key] = derivative
        self._customised()

    def remove_user_entries(self) -> None:
        """Forget what users registered."""
        self._user_kernels.clear()
        self._user_derivatives.clear()
        self.custom = False
        self._changed()

    @property
    def builtin(self) -> bool:
        """Whether raygrad brings it."""
        return bool(self._kernels)

    def _customised(self) -> None:
        self.custom = True
        self.version += 1
        self._changed()

    def user_entries(self) -> tuple[Any, Any]:
        """Return what users registered: ((device, dtype), (function, returns_meta)) per kernel, and the derivatives'
        entries."""
        kernels = [(key, (kernel.run, kernel.returns_meta)) for key, kernel in self._user_kernels.items()]
        return kernels, [derivative.config for derivative in self._user_derivatives.values()]

    def chosen(self, device: str, dtype: Any) -> tuple[Kernel, Derivative | None] | None:
        """Return the kernel and the derivative for an application, None if both are raygrad's own (AC-04).

        Raises:
            GraphError: there is no kernel.
        """
        kernel, derivative = self.kernel(device, dtype), self.derivative(device, dtype)
        given = type(kernel) is UserKernel or (derivative is not None and self.is_user_derivative(derivative))
        return (kernel, derivative) if given or not self.builtin else None

    def is_user_derivative(self, derivative: Derivative) -> bool:
        """Tell whether a user registered this derivative."""
        return any(derivative is one for one in self._user_derivatives.values())

    def __repr__(self) -> str:
        return f"<op {self.name}({', '.join(self.operands)})>"


_ops: dict[str, Op] = {}

_early: dict[str, list[Callable[[Op], None]]] = {}
"""Registrations for ops that are not declared yet, by name, in their order (AC-06)."""


def declare(op: Op) -> Op:
    """Make an op known by its name, with what was registered for it before.

    Raises:
        ValueError: the name is taken; an early registration names what the op does not have.
    """
    if op.name in _ops:
        raise ValueError(f"an op named '{op.name}' is declared already")
    for register in _early.get(op.name, ()):
        register(op)
    _early.pop(op.name, None)
    _ops[op.name] = op
    return op


def adopt(op: Op) -> None:
    """Make an op known that another process declared, in place of an older one of that name."""
    _ops[op.name] = op


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
    """Return the names of all ops, sorted."""
    return sorted(_ops)


def customised() -> list[Op]:
    """Return the built-in ops, by name, for which a user has registered something."""
    return [op for _, op in sorted(_ops.items()) if op.custom and op.builtin]


def list_undeclared() -> list[str]:
    """Return the names, sorted, for which something is registered though no such op is declared: a misspelt name, or
    an op whose declaration is still to come."""
    return sorted(_early)


def _register(name: str, register: Callable[[Op], None]) -> None:
    if name in _ops:
        register(_ops[name])
    else:
        _early.setdefault(name, []).append(register)


def register_kernel(
    op: str, *, device: str = "cpu", dtype: Any = None, replace: bool = False, returns_meta: bool = False
) -> Callable[[Kernel], Kernel]:
    """Return a decorator that registers a kernel for (op, device, dtype).

    It serves calls on tensors. Raygrad's own derivatives, where they compute on bare arrays, go on running its kernels.

    Args:
        op: the op's name; it may be declared later.
        device: "cpu", "cuda", or "*" for any.
        dtype: the compute dtype; "*" or None for any.
        replace: put it in the place of what is registered for this key.
        returns_meta: the kernel returns (result, meta); `setup_context` is given the latter (AC-08).

    Raises:
        ValueError: an unknown device or dtype, or the key is taken and `replace` is not given.
    """
    check_device(device)
    name = dtype_name(dtype)

    def register(kernel: Kernel) -> Kernel:
        given = UserKernel(kernel, returns_meta)
        _register(op, lambda known: known.add_user_kernel(device, name, given, replace))
        return kernel

    return register


def register_autograd(config: AutogradConfig, *, replace: bool = False) -> AutogradConfig:
    """Register the derivative of an op for a device and dtype (AC-01 to AC-06). The op may be declared later.

    Raises:
        ValueError: an unknown device or dtype, or the key is taken and `replace` is not given.
    """
    check_device(config.device)
    dtype_name(config.dtype)
    _register(config.op, lambda op: op.add_user_derivative(config, replace))
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
