"""Python's operators on tensors.

Rules of this file: each method calls the op of the same meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raygrad.errors import DtypeError, MissingKernel

from . import ops
from .changes import Changes
from .inplace import in_place, set_item
from .numpy_functions import NumpyFunctions
from .overlap import check_item
from .tensor import Tensor


class Operators(Changes, NumpyFunctions):
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
        return ops.matmul(self, other) if isinstance(other, Tensor) else NotImplemented

    def __rmatmul__(self, other: Any) -> Tensor:
        return ops.matmul(other, self) if isinstance(other, Tensor) else NotImplemented

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
