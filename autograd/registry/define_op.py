"""Declaration of built-in ops: `define`, with the shape rules and kernel helpers that many ops share.

The files in `ops/` call it once per op, with the kernel on bare arrays, the shape rule, and a derivative that runs on
arrays and on tensors alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import DtypeError, ShapeError

from ..core import dtypes
from ..devices import space_of as space_of
from .entries import OpCallable as OpCallable
from .registry import ANY, MANY as MANY, Admits, AutogradConfig, InferRule, Kernel, Op, Shown, declare
from .vjp_rules import OpContext, quiet as quiet

Shape = tuple[int, ...]

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray

xp: Any = np
"""NumPy without its types: kernels take arrays of any dtype, of which its stubs make nothing known."""


def define(
    name: str,
    operands: tuple[str, ...],
    kernel: OpCallable,
    infer: OpCallable | None,
    backward: Callable[[Any, Any], Any] | None = None,
    *,
    saves: str | tuple[str, ...] = "inputs",
    saved_for: Mapping[str, str] | None = None,
    saved_beside: Mapping[str, str] | None = None,
    detachable: Callable[[Sequence[Any]], Sequence[int]] | None = None,
    outputs: int = 1,
    promotes: str | None = None,
    view: bool = False,
    shown: Shown | None = None,
    weak_numbers: bool = True,
    admits: Admits | None = None,
    device_kernel: OpCallable | None = None,
    host_only: bool = False,
) -> Op:
    """Declare an op, its kernel and (unless it has none) its derivative, and return it.

    The kernel serves every device: NumPy's functions dispatch on the arrays that they are given, and new arrays come
    from the namespace `space_of` an operand.

    Args:
        device_kernel: the kernel of other devices than the host, where it differs.
        host_only: other devices have no kernel, and the op is refused there.
    """
    op = declare(
        Op(
            name,
            operands,
            outputs=outputs,
            infer=infer,
            promotes=promotes,
            view=view,
            shown=shown,
            weak_numbers=weak_numbers,
            admits=admits,
        )
    )
    op.add_kernel("cpu", ANY, kernel)
    if not host_only:
        op.add_kernel("cuda", ANY, device_kernel or kernel)
    if backward is not None:
        op.add_derivative(
            AutogradConfig(
                op=name,
                device=ANY,
                backward=backward,
                saves=saves,
                saved_for=saved_for,
                saved_beside=saved_beside,
                detachable=detachable,
            )
        )
    return op


class Part(NamedTuple):
    """One output of an op that `define_together` declares: kernel, shape rule and derivative of an op of its own."""

    kernel: OpCallable
    infer: InferRule
    backward: Callable[[Any, Any], Any]
    params: int
    """How many of the parameters it takes."""
    saves: tuple[str, ...] = ()
    """The residuals of its derivative: "a", and "output" for the result itself."""


def define_together(name: str, *parts: Part) -> Op:
    """Declare an op of one operand with an output for each part, and one node for all of them."""

    def kernel(a: Any, *params: Any) -> Any:
        return tuple([part.kernel(a, *params[: part.params]) for part in parts])

    def infer(params: tuple[Any, ...], a: Any) -> Any:
        return [part.infer(params[: part.params], a) for part in parts]

    own = [
        tuple([f"output{n}" if saved == "output" else saved for saved in part.saves]) for n, part in enumerate(parts)
    ]
    saves = tuple(dict.fromkeys([saved for each in own for saved in each]))

    def backward(ctx: Any, grads: tuple[Any, ...]) -> Any:
        total: Any = None
        for part, names, grad, meta in zip(parts, own, grads, ctx.outputs, strict=True):
            if grad is not None:
                residuals = [ctx.saved_tensors[saves.index(saved)] for saved in names]
                params = ctx.params[: part.params]
                context = OpContext(residuals, params, ctx.needs_input_grad, ctx.inputs, (meta,))
                found = part.backward(context, grad)
                total = found if total is None else total + found
        return total

    return define(name, ("a",), kernel, infer, backward, saves=saves, outputs=len(parts))


def contiguous(array: Any) -> Any:
    """Return an array in C order: itself if it is so."""
    return np.ascontiguousarray(array) if type(array) is _ARRAY else space_of(array).ascontiguousarray(array)


def row_by_row(kernel: OpCallable) -> Kernel:
    """Return a kernel whose result lies in C order whatever its first operand's: NumPy's takes that one's (H1)."""

    def ordered(a: Any, *rest: Any) -> Any:
        out = kernel(a, *rest)
        return out if a.flags.c_contiguous or not out.ndim else contiguous(out)

    return ordered


def reduction(ufunc: np.ufunc, method: str) -> Any:
    """Return a ufunc's `reduce`, for which arrays of other libraries have a method of their own.

    What is returned takes (array, axis, dtype, out, keepdims, initial); `out` is None.
    """
    over: Any = ufunc.reduce

    def reduce(a: Any, axis: Any, dtype: Any = None, out: Any = None, keepdims: bool = False, *initial: Any) -> Any:
        if type(a) is _ARRAY:
            return over(a, axis, dtype, out, keepdims, *initial)
        if initial and not a.size:
            axes = range(a.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
            kept = [1 if i in axes else n for i, n in enumerate(a.shape) if keepdims or i not in axes]
            return space_of(a).full(tuple(kept), initial[0], a.dtype)
        options: Any = {} if dtype is None else {"dtype": dtype}
        return getattr(a, method)(axis=axis, keepdims=keepdims, **options)

    return reduce


def accumulation(ufunc: np.ufunc) -> Any:
    """Return a ufunc's `accumulate` along an axis, which arrays of other libraries lack: there by doubling strides."""

    def accumulate(a: Any, axis: int) -> Any:
        if type(a) is _ARRAY:
            return ufunc.accumulate(a, axis)
        out, stride = a.copy(), 1
        before: list[Any] = [slice(None)] * a.ndim
        behind = list(before)
        while stride < a.shape[axis]:
            before[axis], behind[axis] = slice(None, -stride), slice(stride, None)
            further = out.copy()
            further[tuple(behind)] = ufunc(out[tuple(before)], out[tuple(behind)])
            out, stride = further, stride * 2
        return out

    return accumulate


def log_of_sum(a: Any, b: Any) -> Any:
    """Return `log(exp(a) + exp(b))` without overflow. Of complex numbers the one with the greater real part stays
    outside the logarithm, so that the imaginary part is near its own; where both vanish, the first of equal ones stays.
    """
    if np.result_type(a, b).kind != "c":
        return np.logaddexp(a, b)
    a, b = a + xp.zeros_like(b), b + xp.zeros_like(a)
    swapped = (a.real < b.real) & ~xp.isnan(a) | xp.isnan(b)
    least, most = xp.where(swapped, a, b), xp.where(swapped, b, a)
    out = xp.log1p(xp.exp(least - most)) + most
    alike = (least.real == most.real) & ~xp.isfinite(least.real)
    infinite = xp.where(least.real < 0, least, xp.log(xp.exp(least) + xp.exp(most)))
    out = xp.where(alike, infinite, out)
    return xp.where(xp.isnan(most), complex(np.nan, np.nan), out).astype(a.dtype)


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Return a polynomial's values by Horner's rule, the coefficient of the highest power first."""
    out = x * 0.0
    for coefficient in coefficients:
        out = out * x + coefficient
    return out


def by_element(function: Callable[[float], float]) -> Any:
    """Return the kernel that asks the standard library for each element."""
    over = np.frompyfunc(function, 1, 1)

    def kernel(a: Any) -> Any:
        return np.asarray(over(a), dtype=a.dtype)

    return kernel


def conj(value: Any) -> Any:
    """Return the complex conjugate of an array, tensor or number; what is real as it is."""
    if type(value) is complex:
        return value.conjugate()
    return value.conj() if hasattr(value, "dtype") and value.dtype.kind == "c" else value


def broadcast_shape(name: str, shapes: Sequence[Shape]) -> Shape:
    """Return the shape that `shapes` broadcast to.

    Raises:
        ShapeError: they do not.
    """
    if len(shapes) == 1 or all(shape == shapes[0] for shape in shapes[1:]):
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(_mismatch(name, shapes)) from None


def _mismatch(name: str, shapes: Sequence[Shape]) -> str:
    """Return what is wrong with shapes that do not broadcast; for two of them, in which dimension."""
    message = f"{name}: the shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast to one another"
    if len(shapes) != 2:
        return message
    a, b = shapes
    for back in range(1, min(len(a), len(b)) + 1):
        if a[-back] != b[-back] and 1 not in (a[-back], b[-back]):
            axis = max(len(a), len(b)) - back
            return (
                f"The size of tensor a ({a[-back]}) must match the size of tensor b ({b[-back]}) at non-singleton "
                f"dimension {axis}; {message}"
            )
    return message


def shapes_of(operands: Sequence[Any]) -> list[Shape]:
    """Return the shapes of the operands that are values, not numbers."""
    return [operand.shape for operand in operands if hasattr(operand, "shape")]


def infer_same(params: tuple[Any, ...], *operands: Any) -> tuple[Shape, Any]:
    """The shape rule of an op whose result is like its first operand."""
    return operands[0].shape, operands[0].dtype


def infer_shaped(position: int) -> InferRule:
    """Return the shape rule of an op that has the shape of its result among its parameters, at `position`."""

    def infer(params: tuple[Any, ...], *operands: Any) -> tuple[Shape, Any]:
        return params[position], operands[0].dtype

    return infer


def infer_elementwise(name: str) -> InferRule:
    """Return the shape rule of an elementwise op whose operands have met in one dtype."""

    def infer(params: tuple[Any, ...], *operands: Any) -> tuple[Shape, Any]:
        values = [o for o in operands if hasattr(o, "shape")]
        return broadcast_shape(name, [v.shape for v in values]), values[0].dtype

    return infer


def infer_comparison(name: str) -> InferRule:
    """Return the shape rule of an elementwise op that gives bools."""

    def infer(params: tuple[Any, ...], *operands: Any) -> tuple[Shape, Any]:
        return broadcast_shape(name, shapes_of(operands)), dtypes.bool

    return infer


def real_of(dtype: Any) -> Any:
    """Return the dtype of the real part of `dtype`."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def axis_of(dim: int, ndim: int) -> int:
    """Return `dim` counted from the front.

    Raises:
        IndexError: it is out of range.
    """
    extent = max(ndim, 1)
    if not -extent <= dim < extent:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-extent}, {extent - 1}], but got {dim})"
        )
    return dim % extent


def axes_of(dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return the reduced axes, sorted and counted from the front; all of them for None or ()."""
    if dim is None:
        return tuple(range(ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if not dims:
        return tuple(range(ndim))
    if not ndim:
        for d in dims:
            axis_of(d, 0)
        return ()
    axes = sorted(axis_of(d, ndim) for d in dims)
    if len(set(axes)) != len(axes):
        twice = next(a for a in axes if axes.count(a) > 1)
        raise ShapeError(f"dim {twice} appears multiple times in the list of dims")
    return tuple(axes)


def sizes_of(sizes: Sequence[Any]) -> Shape:
    """Return a shape given as separate integers or as one sequence."""
    if len(sizes) == 1 and not isinstance(sizes[0], int | np.integer) and not hasattr(sizes[0], "_data"):
        sizes = sizes[0]
    try:
        return tuple([int(size) for size in sizes])
    except (TypeError, ValueError):
        raise DtypeError(f"sizes must be ints, or one tuple of ints, not {sizes!r}") from None


def like_operand(array: Any, operand: Any) -> Any:
    """Return an array as what an operand of a rule is: an array, or a tensor."""
    made: Any = getattr(operand, "made", None)
    return array if made is None else made(array)
