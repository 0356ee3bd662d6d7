"""Custom ops: Function classes generated from the kernels and derivatives that a user registers for an op (AC-01,
AC-15).

The chosen entries of an op become a Function class once. Its context, node, hooks, version checks, sessions and higher
derivatives are those of any Function, and the entries travel to workers as its code does. The registry decides which
entries serve an op.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError, MissingDerivative

from ..core.modes import enable_grad, state
from ..devices.serving import as_kernel_result
from ..dispatch.dispatch import call
from ..forward_mode.tangents import transposed
from ..functions.context import FunctionNode
from ..functions.double_backward import leaf_of
from ..functions.function import Function
from ..registry.registry import Derivative, Kernel, Op, UserKernel, adopt, declare, get_op
from ..registry.vjp_rules import Meta, by_operand
from ..tensor.tensor import Tensor

_Rule = Callable[..., Any]


class OpFunctionNode(FunctionNode):
    """The context of a custom op's application: saved operands, numbers among them, and static parameters."""

    _numbers: dict[int, Any]
    """Slots of `saved_tensors` that hold no tensor, by position."""
    params: tuple[Any, ...]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved values, in order; a number for a number operand."""
        saved = super().saved_tensors
        numbers: dict[int, Any] = self.__dict__.get("_numbers", {})
        return tuple([numbers.get(slot, value) for slot, value in enumerate(saved)]) if numbers and saved else saved

    @property
    def inputs(self) -> Sequence[Meta | None]:
        """Per operand its (shape, dtype); None for numbers."""
        return self._inputs

    @property
    def outputs(self) -> Sequence[Meta | None]:
        """Per output its (shape, dtype)."""
        return self._metas


class OpFunction(Function):
    """The base of the Function classes that `function_of` makes from the registered entries of an op.

    Their attributes are plain ones, so that a session can tell two of them apart quickly.
    """

    _context_type = OpFunctionNode

    op: str
    operands: tuple[str, ...]
    named_params: tuple[str, ...]
    outputs: int
    has_params: bool
    copies: bool
    """Whether to copy the result: the kernel may return a view of its operand."""
    returns_meta: bool
    dtype: str
    kernel: _Rule | None
    """The user's kernel; None for raygrad's own, which every process looks up by name."""
    rule: _Rule | None
    """The user's derivative; None for raygrad's own, or without one."""
    setup: _Rule | None
    saves: tuple[int, ...]
    gates: tuple[int | None, ...]
    """Per entry of `saves`: the operand whose gradient needs it, None if any does."""
    absent: str
    """The error message if there is no derivative; else empty."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Run the kernel on arrays, then the entry's own step for saving."""
        cls: type[OpFunction] = ctx._function
        params: tuple[Any, ...] = args[-1] if cls.has_params else ()
        operands = args[:-1] if cls.has_params else args
        kernel = cls.kernel or get_op(cls.op).builtin_kernel("cpu", cls.dtype)
        with np.errstate(all="ignore"):
            result = kernel(*[a._data if isinstance(a, Tensor) else a for a in operands], *params)
        meta = None
        if cls.returns_meta:
            result, meta = result
        results = (result,) if cls.outputs == 1 else tuple(result)
        if len(results) != cls.outputs:
            raise AutogradError(f"a kernel of '{cls.op}' returned {len(results)} outputs, but the op has {cls.outputs}")
        outputs = tuple([_output(value, operands, cls.copies) for value in results])
        output = outputs[0] if cls.outputs == 1 else outputs
        carried = any(isinstance(o, Tensor) and o._tangents for o in operands)
        if ctx._edges or carried:
            ctx.params = params
            if cls.setup is not None:
                cls.setup(ctx, _by_name(cls, operands, params), output, meta)
            elif not cls.absent:
                kept = [operands[p] if p >= 0 else outputs[-1 - p] for p in cls.saves]
                for slot, gate in enumerate(cls.gates):
                    if gate is not None and not ctx.needs_input_grad[gate]:
                        if gate >= 0 or not isinstance(operands[gate], Tensor):
                            kept[slot] = None
                ctx.save_for_backward(*[value if isinstance(value, Tensor) else None for value in kept])
                ctx._numbers = {i: v for i, v in enumerate(kept) if not isinstance(v, Tensor)}
        if carried:  # what jvp needs
            ctx._results = outputs
            ctx.save_for_forward(*(ctx.to_save or ()))
        return output

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        """Run the entry's backward and assign its results to operands (AC-10)."""
        cls: type[OpFunction] = ctx._function
        if cls.absent:
            raise MissingDerivative(cls.absent)
        rule = cls.rule
        if rule is None:
            own = get_op(cls.op).builtin_derivative("cpu", cls.dtype)
            assert own is not None
            rule = own.backward
        result = rule(ctx, grad_outputs[0] if cls.outputs == 1 else grad_outputs)
        count = len(ctx.needs_input_grad) - cls.has_params
        if count != 1 and isinstance(result, Tensor | np.ndarray):
            raise AutogradError(
                f"the backward of '{cls.op}' returned an incorrect number of gradients (expected {count}, got 1): "
                "return a mapping by input name, or a tuple in their order"
            )
        grads = by_operand(_Declared(cls.op, cls.operands), result, count)
        if cls.rule is None:  # raygrad's own say what they know, also of numbers
            grads = [grad if needed else None for grad, needed in zip(grads, ctx.needs_input_grad, strict=False)]
        return (*grads, None) if cls.has_params else tuple(grads)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Return the tangents of the outputs by transposing the entry's backward, which is linear in the gradients."""
        cls: type[OpFunction] = ctx._function
        if cls.absent:
            raise MissingDerivative(f"Trying to use forward AD with {cls.op} that does not support it: {cls.absent}")
        recording = state.grad
        probes = [
            leaf_of(Tensor.made(np.ones(output.shape, output.dtype)), True) if output.dtype.kind in "fc" else None
            for output in ctx._results
        ]
        with enable_grad():
            rows = OpFunction.backward(ctx, *probes)
        known = (*ctx.saved_tensors, *tangents)
        differentiable = any(isinstance(value, Tensor) and value.requires_grad for value in known)
        found = transposed(_Declared(cls.op, cls.operands), rows, tangents, probes, recording and differentiable)
        return found[0] if cls.outputs == 1 else tuple(found)


class InferringOpFunction(OpFunction):
    """An `OpFunction` whose op has a shape rule, so that a session need not wait for its first run (H3)."""

    shape_rule: _Rule

    @classmethod
    def infer(cls, *args: Any) -> Any:
        """Return (shape, dtype), or one for each output, from those of the operands."""
        params: tuple[Any, ...] = args[-1] if cls.has_params else ()
        operands = args[:-1] if cls.has_params else args
        known = [_Operand(tuple(o.shape), np.dtype(o.dtype)) if hasattr(o, "dtype") else o for o in operands]
        said = cls.shape_rule(params, *known)
        return said if cls.outputs == 1 else tuple(said)


class _Operand(NamedTuple):
    """An operand as a shape rule sees it: shape and dtype."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)


class _Declared(NamedTuple):
    """The name of an op and of its operands, known also where the op is not declared."""

    name: str
    operands: tuple[str, ...]


def _output(value: Any, operands: Sequence[Any], copies: bool) -> Tensor:
    for operand in operands:  # a kernel that worked in place returns its operand
        if isinstance(operand, Tensor) and operand._data is value:
            return operand
    array = as_kernel_result(value)
    return Tensor.made(array.copy() if copies else array)


def _by_name(cls: type[OpFunction], operands: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    """Return the inputs by name, named parameters among them (AC-08)."""
    named: dict[str, Any] = {}
    for position, name in enumerate(cls.operands):
        if name.startswith("*"):
            named[name[1:]] = tuple(operands[position:])
        else:
            named[name] = operands[position]
    named.update(zip(cls.named_params, params, strict=False))
    return named


def applied(op: Op, operands: Sequence[Any], params: tuple[Any, ...], dtype: Any, device: str = "cpu") -> Any:
    """Return the outputs of an op by the kernel or derivative that a user registered; None where raygrad's own serve.

    Args:
        op: the op.
        operands: its operands, promoted to a common dtype.
        params: its static parameters.
        dtype: the compute dtype (AC-04).
        device: the kind of device of the operands.
    """
    key = (device, dtype, bool(params))
    if key in op.applied:
        cls = op.applied[key]
    else:
        chosen = op.chosen(device, dtype)
        cls = op.applied[key] = None if chosen is None else function_of(op, *chosen, bool(params), dtype, device)
    if cls is None:
        return None
    return cls.apply(*operands, params) if params else cls.apply(*operands)


def function_of(
    op: Op, kernel: Kernel, derivative: Derivative | None, has_params: bool, dtype: Any, device: str = "cpu"
) -> type[OpFunction]:
    """Return a Function class, named after the op, that runs these entries."""
    given = kernel if isinstance(kernel, UserKernel) else None
    rule = derivative if derivative is not None and op.is_user_derivative(derivative) else None
    members: dict[str, Any] = {
        "__module__": getattr(given.run if given else rule and rule.backward, "__module__", None) or __name__,
        "__doc__": f"The op '{op.name}' with registered entries.",
        "op": op.name,
        "operands": op.operands,
        "named_params": op.params,
        "outputs": op.outputs,
        "has_params": has_params,
        "copies": op.view,
        "returns_meta": given is not None and given.returns_meta,
        "dtype": str(dtype),
        "kernel": None if given is None else staticmethod(given.run),
        "rule": None if rule is None else staticmethod(rule.backward),
        "setup": None if rule is None or rule.setup_context is None else staticmethod(rule.setup_context),
        "saves": () if derivative is None else derivative.saves,
        "gates": () if derivative is None else derivative.gates,
        "absent": "" if derivative is not None else str(op.missing("cpu", dtype)),
    }
    base = OpFunction
    if op.infer is not None:
        base, members["shape_rule"] = InferringOpFunction, staticmethod(op.infer)
    name = "".join(part.capitalize() for part in op.name.split("_"))
    maker: Any = type(OpFunction)
    return maker(name, (base,), members)


# ---- ops that users declare ------------------------------------------------------------------------------------------


class DeclaredOp:
    """An op that a user declared; a call applies it. It pickles with its registered entries (AC-15)."""

    def __init__(self, op: Op) -> None:
        self._op = op

    @property
    def name(self) -> str:
        """The op's name."""
        return self._op.name

    def __call__(self, *operands: Any, **named: Any) -> Any:
        """Return the op's output, or the tuple of its outputs. Parameters, and operands after the last positional one,
        are given by name.

        Raises:
            TypeError: too few or too many operands, a parameter that is missing, a name that the op does not have.
        """
        names = self._op.operands
        if not any(name.startswith("*") for name in names):
            given = list(operands)
            given.extend([named.pop(name) for name in names[len(given) :] if name in named])
            if len(given) != len(names):
                raise TypeError(f"'{self.name}' takes {len(names)} operands ({', '.join(names)}), got {len(given)}")
            operands = tuple(given)
        missing = [name for name in self._op.params if name not in named]
        unknown = [name for name in named if name not in self._op.params]
        if missing or unknown:
            raise TypeError(
                f"'{self.name}' takes the parameters ({', '.join(self._op.params)}) by name; "
                f"missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
            )
        return call(self._op, operands, tuple([named[name] for name in self._op.params]))

    def __repr__(self) -> str:
        return f"<declared {self._op!r}>"

    def __reduce__(self) -> Any:
        op = self._op
        declaration = (op.name, op.operands, op.params, op.outputs, op.infer, op.promotes)
        return _adopted, ((_PROCESS, op.version), declaration, *op.user_entries())


_PROCESS = uuid.uuid4().hex
_adopted_from: dict[str, Any] = {}
"""Declared ops received from other processes: by name, the sending process and its number of registrations."""


def _adopted(origin: tuple[str, int], declaration: Any, kernels: Any, derivatives: Any) -> DeclaredOp:
    """Return a declared op after unpickling: itself in the process that declared it, else a copy with the entries that
    it was sent with."""
    name, operands, params, outputs, infer, promotes = declaration
    if origin[0] == _PROCESS:
        return DeclaredOp(get_op(name))
    if _adopted_from.get(name) != origin:
        op = Op(name, operands, outputs=outputs, infer=infer, promotes=promotes, params=params)
        for (device, dtype), (run, returns_meta) in kernels:
            op.add_user_kernel(device, dtype, UserKernel(run, returns_meta), False)
        for config in derivatives:
            op.add_user_derivative(config, False)
        adopt(op)
        _adopted_from[name] = origin
    return DeclaredOp(get_op(name))


def declare_op(
    name: str,
    operands: Sequence[str],
    *,
    params: Sequence[str] = (),
    outputs: int = 1,
    infer: Callable[..., Any] | None = None,
    promotes: str | None = None,
) -> DeclaredOp:
    """Declare an op and return the function that applies it. Its kernels and derivatives are registered by
    `register_kernel` and `register_autograd`, before or afterwards.

    Args:
        name: by which it is registered and known in messages.
        operands: names of the operands; the last may start with "*" and then takes all that follow.
        params: names of static parameters, which the kernel is given after the operands.
        outputs: how many arrays the kernel returns.
        infer: `infer(params, *operands)` returns (shape, dtype), or a list of such for several outputs, from operands
            of which `.shape` and `.dtype` are known: then a session need not run the op to know its result.
        promotes: how operands of several dtypes meet: None (they do not), "arith", or "float" (integers become
            floating).

    Raises:
        ValueError: the name is taken, `promotes` is unknown, or what was registered early does not fit.
    """
    if promotes not in (None, "arith", "float"):
        raise ValueError(f"unknown promotion '{promotes}'; known: None, 'arith', 'float'")
    made = Op(name, tuple(operands), params=tuple(params), outputs=outputs, infer=infer, promotes=promotes)
    return DeclaredOp(declare(made))
