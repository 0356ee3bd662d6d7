"""Python's operators on tensors: arithmetic, comparison, matmul, indexing.

Each calls the function of the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from raygrad.errors import DtypeError, MissingKernel
from raygrad.tracebacks import leave

from .. import ops
from ..dispatch.dispatch import call_few
from ..mutation.inplace import in_place, set_item
from ..mutation.overlap import check_item
from ..registry.registry import get_op
from ..tensor.tensor import Tensor
from .inplace_ops import InPlaceOps
from .numpy_functions import NumpyFunctions

Operator = Callable[[Any, Any], "Tensor"]


def _both_ways(name: str, function_name: str) -> tuple[Operator, Operator]:
    """Return the operators `self op other` and `other op self`, which call a function of the catalogue."""
    function: Any = getattr(ops, function_name)

    def operator(self: Any, other: Any) -> Tensor:
        try:
            return function(self, other)
        except DtypeError:
            return NotImplemented
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    def mirror(self: Any, other: Any) -> Tensor:
        try:
            return function(other, self)
        except DtypeError:
            return NotImplemented
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    return _named(operator, f"__{name}__"), _named(mirror, f"__r{name}__")


def _of_op(name: str) -> tuple[Operator, Operator]:
    """Return what `_both_ways` returns for a function that passes its operands to the op of its name: the operators
    apply that themselves."""
    op = get_op(name)

    def operator(self: Any, other: Any) -> Tensor:
        try:
            return call_few(op, self, other)
        except DtypeError:
            return NotImplemented
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    def mirror(self: Any, other: Any) -> Tensor:
        try:
            return call_few(op, other, self)
        except DtypeError:
            return NotImplemented
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    return _named(operator, f"__{name}__"), _named(mirror, f"__r{name}__")


def _in_place(name: str, method: str) -> Operator:
    """Return the operator that assigns by a method in place."""

    def operator(self: Any, other: Any) -> Tensor:
        try:
            return getattr(self, method)(other)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    return _named(operator, f"__i{name}__")


def _named(operator: Any, name: str) -> Operator:
    operator.__name__, operator.__qualname__ = name, f"Operators.{name}"
    return operator


class Operators(InPlaceOps, NumpyFunctions):
    """Operators of tensors. For an operand that it does not take, an operator returns NotImplemented."""

    __add__, __radd__ = _of_op("add")
    __sub__, __rsub__ = _of_op("sub")
    __mul__, __rmul__ = _of_op("mul")
    __truediv__, __rtruediv__ = _both_ways("truediv", "div")
    __floordiv__, __rfloordiv__ = _both_ways("floordiv", "floor_divide")
    __mod__, __rmod__ = _both_ways("mod", "remainder")
    __pow__, __rpow__ = _both_ways("pow", "pow")
    __and__, __rand__ = _both_ways("and", "bitwise_and")
    __or__, __ror__ = _both_ways("or", "bitwise_or")
    __xor__, __rxor__ = _both_ways("xor", "bitwise_xor")
    __lshift__, __rlshift__ = _both_ways("lshift", "bitwise_left_shift")
    __rshift__, __rrshift__ = _both_ways("rshift", "bitwise_right_shift")

    __iadd__ = _in_place("add", "add_")
    __isub__ = _in_place("sub", "sub_")
    __imul__ = _in_place("mul", "mul_")
    __itruediv__ = _in_place("truediv", "div_")
    __ifloordiv__ = _in_place("floordiv", "floor_divide_")
    __imod__ = _in_place("mod", "remainder_")
    __ipow__ = _in_place("pow", "pow_")
    __iand__ = _in_place("and", "bitwise_and_")
    __ior__ = _in_place("or", "bitwise_or_")
    __ixor__ = _in_place("xor", "bitwise_xor_")

    __ilshift__ = _in_place("lshift", "bitwise_left_shift_")
    __irshift__ = _in_place("rshift", "bitwise_right_shift_")

    __lt__, __le__, __gt__, __ge__ = (_both_ways(name, name)[0] for name in ("lt", "le", "gt", "ge"))

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        try:
            return NotImplemented if other is None else ops.eq(self, other)
        except DtypeError:
            return NotImplemented
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        try:
            return NotImplemented if other is None else ops.ne(self, other)
        except DtypeError:
            return NotImplemented
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    __hash__ = object.__hash__

    def __matmul__(self, other: Any) -> Tensor:
        try:
            return ops.matmul(self, other) if isinstance(other, Tensor) else NotImplemented
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    def __rmatmul__(self, other: Any) -> Tensor:
        try:
            return ops.matmul(other, self) if isinstance(other, Tensor) else NotImplemented
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    def __imatmul__(self, other: Any) -> Tensor:
        return in_place(self, lambda old: ops.matmul(old, other))

    def __neg__(self) -> Tensor:
        try:
            return ops.neg(self)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

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
