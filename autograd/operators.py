"""Python's operators on tensors, NumPy's functions on tensors, and changes in place.

Rules of this file: each method calls the op of the same meaning. `ops` is the catalogue, which puts itself here when it
is loaded: it is built on tensors, and so cannot be imported first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from raygrad.errors import AutogradError, DtypeError, MissingKernel

from .inplace import in_place, of_part, set_item
from .overlap import check_apart, check_item, check_partial

if TYPE_CHECKING:
    from .tensor import Tensor

ops: Any = None


class Operators:
    """Operators of tensors. What an operator cannot take it leaves to the other operand, as Python wants it."""

    def __add__(self, other: Any) -> Tensor:
        try:
            return ops.add(self, other)
        except DtypeError:
            return NotImplemented

    def __radd__(self, other: Any) -> Tensor:
        try:
            return ops.add(other, self)
        except DtypeError:
            return NotImplemented

    def __iadd__(self, other: Any) -> Tensor:
        return self.add_(other)

    def __sub__(self, other: Any) -> Tensor:
        try:
            return ops.sub(self, other)
        except DtypeError:
            return NotImplemented

    def __rsub__(self, other: Any) -> Tensor:
        try:
            return ops.sub(other, self)
        except DtypeError:
            return NotImplemented

    def __isub__(self, other: Any) -> Tensor:
        return self.sub_(other)

    def __mul__(self, other: Any) -> Tensor:
        try:
            return ops.mul(self, other)
        except DtypeError:
            return NotImplemented

    def __rmul__(self, other: Any) -> Tensor:
        try:
            return ops.mul(other, self)
        except DtypeError:
            return NotImplemented

    def __imul__(self, other: Any) -> Tensor:
        return self.mul_(other)

    def __truediv__(self, other: Any) -> Tensor:
        try:
            return ops.div(self, other)
        except DtypeError:
            return NotImplemented

    def __rtruediv__(self, other: Any) -> Tensor:
        try:
            return ops.div(other, self)
        except DtypeError:
            return NotImplemented

    def __itruediv__(self, other: Any) -> Tensor:
        return self.div_(other)

    def __floordiv__(self, other: Any) -> Tensor:
        try:
            return ops.floor_divide(self, other)
        except DtypeError:
            return NotImplemented

    def __rfloordiv__(self, other: Any) -> Tensor:
        try:
            return ops.floor_divide(other, self)
        except DtypeError:
            return NotImplemented

    def __ifloordiv__(self, other: Any) -> Tensor:
        return self.floor_divide_(other)

    def __mod__(self, other: Any) -> Tensor:
        try:
            return ops.remainder(self, other)
        except DtypeError:
            return NotImplemented

    def __rmod__(self, other: Any) -> Tensor:
        try:
            return ops.remainder(other, self)
        except DtypeError:
            return NotImplemented

    def __imod__(self, other: Any) -> Tensor:
        return self.remainder_(other)

    def __pow__(self, other: Any) -> Tensor:
        try:
            return ops.pow(self, other)
        except DtypeError:
            return NotImplemented

    def __rpow__(self, other: Any) -> Tensor:
        try:
            return ops.pow(other, self)
        except DtypeError:
            return NotImplemented

    def __ipow__(self, other: Any) -> Tensor:
        return self.pow_(other)

    def __and__(self, other: Any) -> Tensor:
        try:
            return ops.bitwise_and(self, other)
        except DtypeError:
            return NotImplemented

    def __rand__(self, other: Any) -> Tensor:
        try:
            return ops.bitwise_and(other, self)
        except DtypeError:
            return NotImplemented

    def __iand__(self, other: Any) -> Tensor:
        return self.bitwise_and_(other)

    def __or__(self, other: Any) -> Tensor:
        try:
            return ops.bitwise_or(self, other)
        except DtypeError:
            return NotImplemented

    def __ror__(self, other: Any) -> Tensor:
        try:
            return ops.bitwise_or(other, self)
        except DtypeError:
            return NotImplemented

    def __ior__(self, other: Any) -> Tensor:
        return self.bitwise_or_(other)

    def __xor__(self, other: Any) -> Tensor:
        try:
            return ops.bitwise_xor(self, other)
        except DtypeError:
            return NotImplemented

    def __rxor__(self, other: Any) -> Tensor:
        try:
            return ops.bitwise_xor(other, self)
        except DtypeError:
            return NotImplemented

    def __ixor__(self, other: Any) -> Tensor:
        return self.bitwise_xor_(other)

    def __lshift__(self, other: Any) -> Tensor:
        try:
            return ops.bitwise_left_shift(self, other)
        except DtypeError:
            return NotImplemented

    def __rlshift__(self, other: Any) -> Tensor:
        try:
            return ops.bitwise_left_shift(other, self)
        except DtypeError:
            return NotImplemented

    def __ilshift__(self, other: Any) -> Tensor:
        return in_place(self, lambda old: ops.bitwise_left_shift(old, other), other)

    def __irshift__(self, other: Any) -> Tensor:
        return in_place(self, lambda old: ops.bitwise_right_shift(old, other), other)

    def __rshift__(self, other: Any) -> Tensor:
        try:
            return ops.bitwise_right_shift(self, other)
        except DtypeError:
            return NotImplemented

    def __rrshift__(self, other: Any) -> Tensor:
        try:
            return ops.bitwise_right_shift(other, self)
        except DtypeError:
            return NotImplemented

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        if other is None:
            return NotImplemented
        try:
            return ops.eq(self, other)
        except DtypeError:
            return NotImplemented

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        if other is None:
            return NotImplemented
        try:
            return ops.ne(self, other)
        except DtypeError:
            return NotImplemented

    def __lt__(self, other: Any) -> Tensor:
        try:
            return ops.lt(self, other)
        except DtypeError:
            return NotImplemented

    def __le__(self, other: Any) -> Tensor:
        try:
            return ops.le(self, other)
        except DtypeError:
            return NotImplemented

    def __gt__(self, other: Any) -> Tensor:
        try:
            return ops.gt(self, other)
        except DtypeError:
            return NotImplemented

    def __ge__(self, other: Any) -> Tensor:
        try:
            return ops.ge(self, other)
        except DtypeError:
            return NotImplemented

    __hash__ = object.__hash__

    def __matmul__(self, other: Any) -> Tensor:
        return ops.matmul(self, other) if isinstance(other, Operators) else NotImplemented

    def __rmatmul__(self, other: Any) -> Tensor:
        return ops.matmul(other, self) if isinstance(other, Operators) else NotImplemented

    def __imatmul__(self, other: Any) -> Tensor:
        return in_place(self, lambda old: ops.matmul(old, other))

    def __neg__(self) -> Tensor:
        return ops.neg(self)

    def __pos__(self) -> Tensor:
        return ops.positive(self)

    def __abs__(self) -> Tensor:
        return ops.abs(self)

    def __invert__(self) -> Tensor:
        try:
            return ops.bitwise_not(self)
        except MissingKernel as error:
            raise DtypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors") from error

    def __getitem__(self, index: Any) -> Tensor:
        return ops.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        check_item(self, index, value)
        set_item(self, index, value)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:  # type: ignore[attr-defined]
            raise TypeError("iteration over a 0-d tensor")
        return iter(ops.unbind(self, 0))

    def __contains__(self, element: Any) -> bool:
        return bool(ops.any(ops.eq(self, element)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Run a NumPy function as the op of the same meaning; one that is no op on arrays, if no grad is required."""
        if method != "__call__" or options:
            return NotImplemented
        name = _UFUNCS.get(ufunc)
        if name is None:
            result: Any = ufunc(*[x.numpy() if isinstance(x, Operators) else x for x in inputs])  # type: ignore[attr-defined]
            return _made(result) if ufunc.nout == 1 else tuple([_made(part) for part in result])
        return getattr(ops, name)(*[_operand(x) for x in inputs])

    # ---- in place ----------------------------------------------------------------------------------------------------

    def add_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Add `alpha * other` in place."""
        return in_place(self, lambda old: ops.add(old, other, alpha=alpha), other)

    def sub_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Subtract `alpha * other` in place."""
        return in_place(self, lambda old: ops.sub(old, other, alpha=alpha), other)

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """Divide by `other` in place."""
        return in_place(self, lambda old: ops.div(old, other, rounding_mode=rounding_mode), other)

    def mul_(self, other: Any) -> Tensor:
        """Multiply by `other` in place."""
        return in_place(self, lambda old: ops.mul(old, other), other)

    def pow_(self, other: Any) -> Tensor:
        """Raise to the power `other` in place."""
        return in_place(self, lambda old: ops.pow(old, other), other)

    def remainder_(self, other: Any) -> Tensor:
        """Take the remainder by `other` in place."""
        return in_place(self, lambda old: ops.remainder(old, other), other)

    def fmod_(self, other: Any) -> Tensor:
        """Take C's remainder by `other` in place."""
        return in_place(self, lambda old: ops.fmod(old, other), other)

    def floor_divide_(self, other: Any) -> Tensor:
        """Divide by `other` and round down in place."""
        return in_place(self, lambda old: ops.floor_divide(old, other), other)

    def bitwise_and_(self, other: Any) -> Tensor:
        """And with `other` in place."""
        return in_place(self, lambda old: ops.bitwise_and(old, other), other)

    def bitwise_or_(self, other: Any) -> Tensor:
        """Or with `other` in place."""
        return in_place(self, lambda old: ops.bitwise_or(old, other), other)

    def bitwise_xor_(self, other: Any) -> Tensor:
        """Exclusive or with `other` in place."""
        return in_place(self, lambda old: ops.bitwise_xor(old, other), other)

    def neg_(self) -> Tensor:
        """Negate in place."""
        return in_place(self, ops.neg)

    def abs_(self) -> Tensor:
        """Take the absolute value in place.

        Raises:
            RuntimeError: the tensor is complex, its absolute value is not.
        """
        return in_place(self, _abs_of_same_dtype)

    def sign_(self) -> Tensor:
        """Take the sign in place."""
        return in_place(self, ops.sign)

    def exp_(self) -> Tensor:
        """Take the exponential in place."""
        return in_place(self, ops.exp)

    def expm1_(self) -> Tensor:
        """Take `exp(x) - 1` in place."""
        return in_place(self, ops.expm1)

    def log_(self) -> Tensor:
        """Take the logarithm in place."""
        return in_place(self, ops.log)

    def log1p_(self) -> Tensor:
        """Take `log(1 + x)` in place."""
        return in_place(self, ops.log1p)

    def sqrt_(self) -> Tensor:
        """Take the square root in place."""
        return in_place(self, ops.sqrt)

    def rsqrt_(self) -> Tensor:
        """Take `1 / sqrt(x)` in place."""
        return in_place(self, ops.rsqrt)

    def square_(self) -> Tensor:
        """Square in place."""
        return in_place(self, ops.square)

    def reciprocal_(self) -> Tensor:
        """Take `1 / x` in place."""
        return in_place(self, ops.reciprocal)

    def sin_(self) -> Tensor:
        """Take the sine in place."""
        return in_place(self, ops.sin)

    def cos_(self) -> Tensor:
        """Take the cosine in place."""
        return in_place(self, ops.cos)

    def tanh_(self) -> Tensor:
        """Take the hyperbolic tangent in place."""
        return in_place(self, ops.tanh)

    def sigmoid_(self) -> Tensor:
        """Take the sigmoid in place."""
        return in_place(self, ops.sigmoid)

    def relu_(self) -> Tensor:
        """Take `max(x, 0)` in place."""
        return in_place(self, ops.relu)

    def floor_(self) -> Tensor:
        """Round down in place."""
        return in_place(self, ops.floor)

    def ceil_(self) -> Tensor:
        """Round up in place."""
        return in_place(self, ops.ceil)

    def trunc_(self) -> Tensor:
        """Round towards zero in place."""
        return in_place(self, ops.trunc)

    def round_(self) -> Tensor:
        """Round to the nearest in place."""
        return in_place(self, ops.round)

    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """Limit to [min, max] in place."""
        return in_place(self, lambda old: ops.clamp(old, min, max), min, max)

    def lerp_(self, end: Any, weight: Any) -> Tensor:
        """Move towards `end` by `weight` of the way, in place."""
        return in_place(self, lambda old: ops.lerp(old, end, weight), end, weight)

    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Add `value * tensor1 * tensor2` in place."""
        return in_place(self, lambda old: ops.addcmul(old, tensor1, tensor2, value=value), tensor1, tensor2)

    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Add `value * tensor1 / tensor2` in place."""
        return in_place(self, lambda old: ops.addcdiv(old, tensor1, tensor2, value=value), tensor1, tensor2)

    def masked_fill_(self, mask: Any, value: Any) -> Tensor:
        """Put `value` where `mask` holds, in place."""
        return in_place(self, lambda old: ops.masked_fill(old, mask, value), mask)

    def index_add_(self, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
        """Add slices of `source` at the places that `index` names along `dim`, in place."""
        check_apart(self, index, source)
        return in_place(self, lambda old: ops.index_add(old, dim, index, source, alpha=alpha))

    def scatter_(self, dim: int, index: Any, src: Any) -> Tensor:
        """Put elements of `src` at the places that `index` names along `dim`, in place."""
        check_apart(self, index, src)
        return in_place(self, lambda old: ops.scatter(old, dim, index, src))

    def scatter_add_(self, dim: int, index: Any, src: Any) -> Tensor:
        """Add elements of `src` at the places that `index` names along `dim`, in place."""
        check_apart(self, index, src)
        return in_place(self, lambda old: ops.scatter_add(old, dim, index, src))

    def zero_(self) -> Tensor:
        """Make all elements zero."""
        return self.fill_(0)

    def fill_(self, value: Any) -> Tensor:
        """Make all elements `value`."""
        set_item(self, Ellipsis, value)
        return self  # type: ignore[return-value]

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Tensor:
        """Put one number on the main diagonal, that of all dimensions; of a tall matrix, to `wrap`, on those below it
        as well.

        Raises:
            RuntimeError: there are fewer than two dimensions, or more of different extents.
        """
        where = _diagonal_of(self.shape, wrap)  # pyright: ignore
        return in_place(self, lambda old: of_part(ops.put_placed(old, fill_value, *where)))

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> Tensor:
        """Draw the elements from a normal distribution.

        Raises:
            RuntimeError: `std` is negative.
        """
        if not std >= 0:
            raise AutogradError(f"normal expects std >= 0.0, but found std {std}")
        from .creation import randn_like

        return in_place(self, lambda old: randn_like(old) * std + mean)

    def uniform_(self, from_: float = 0.0, to: float = 1.0) -> Tensor:
        """Draw the elements evenly from between two numbers.

        Raises:
            RuntimeError: the second is smaller than the first.
        """
        if not from_ <= to:
            raise AutogradError(f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}")
        from .creation import rand_like

        return in_place(self, lambda old: rand_like(old) * (to - from_) + from_)

    def copy_(self, src: Any) -> Tensor:
        """Take over the elements of `src`, converted and broadcast.

        Raises:
            RuntimeError: `src` has more dimensions, or other extents.
        """
        _check_copied(self, src)
        check_partial(self, (src,))
        set_item(self, Ellipsis, src)
        return self  # type: ignore[return-value]


def _diagonal_of(shape: tuple[int, ...], wrap: bool) -> tuple[Any, ...]:
    """Return the place of a main diagonal: its shape and strides, where it starts, and the order of axes."""
    if len(shape) < 2:
        raise AutogradError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise AutogradError("all dimensions of input must be of equal length")
    step = sum([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])
    extent = min(shape) if not wrap or len(shape) > 2 else -(-math.prod(shape) // step) if shape[1] else 0
    return (extent,), (step,), 0, tuple(range(len(shape)))


def _check_copied(tensor: Any, src: Any) -> None:
    """Check that what is copied has no more dimensions than where it is copied to."""
    shape = getattr(src, "shape", ())
    if len(shape) > tensor.ndim:
        raise AutogradError(
            f"output with shape {list(tensor.shape)} doesn't match the broadcast shape {list(shape)} of the source"
        )


def _abs_of_same_dtype(old: Any) -> Any:
    if old.dtype.kind == "c":
        raise AutogradError("In-place abs is not supported for complex tensors.")
    return ops.abs(old)


_UFUNCS = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.true_divide: "div",
    np.floor_divide: "floor_divide",
    np.remainder: "remainder",
    np.fmod: "fmod",
    np.power: "pow",
    np.matmul: "matmul",
    np.negative: "neg",
    np.absolute: "abs",
    np.sign: "sign",
    np.square: "square",
    np.sqrt: "sqrt",
    np.reciprocal: "reciprocal",
    np.exp: "exp",
    np.expm1: "expm1",
    np.log: "log",
    np.log1p: "log1p",
    np.log2: "log2",
    np.log10: "log10",
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arcsin: "asin",
    np.arccos: "acos",
    np.arctan: "atan",
    np.arctan2: "atan2",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.tanh: "tanh",
    np.arcsinh: "asinh",
    np.arccosh: "acosh",
    np.arctanh: "atanh",
    np.floor: "floor",
    np.ceil: "ceil",
    np.trunc: "trunc",
    np.rint: "round",
    np.maximum: "maximum",
    np.minimum: "minimum",
    np.hypot: "hypot",
    np.logaddexp: "logaddexp",
    np.conjugate: "conj",
    np.equal: "eq",
    np.not_equal: "ne",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    np.logical_and: "logical_and",
    np.logical_or: "logical_or",
    np.logical_xor: "logical_xor",
    np.logical_not: "logical_not",
    np.bitwise_and: "bitwise_and",
    np.bitwise_or: "bitwise_or",
    np.bitwise_xor: "bitwise_xor",
    np.invert: "bitwise_not",
    np.isnan: "isnan",
    np.isinf: "isinf",
    np.isfinite: "isfinite",
}


def _made(array: Any) -> Tensor:
    from .tensor import Tensor

    return Tensor.made(np.asarray(array))


def _operand(value: Any) -> Any:
    """Return an operand of a NumPy function as an op takes it: arrays as tensors, NumPy's numbers as Python's."""
    if isinstance(value, np.ndarray):
        return _made(value)
    return value.item() if type(value).__module__ == "numpy" else value
