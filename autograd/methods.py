"""Operators and methods of tensors that are ops; `surface` gives them to `Tensor`.

Rules of this file: each method calls the op of the same name. Methods about shape and dtype stand in `shape_methods`,
operators and changes in place in `operators`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import ops
from .function_methods import FunctionMethods
from .in_place_methods import ComparedInPlace, ElementwiseInPlace, ScatteredInPlace
from .shape_methods import ShapeMethods

if TYPE_CHECKING:
    from .tensor import Tensor


class TensorMethods(ShapeMethods, FunctionMethods, ElementwiseInPlace, ComparedInPlace, ScatteredInPlace):
    """Methods of tensors. Each takes what the function of the same name takes, the tensor being the first."""

    # ---- arithmetic --------------------------------------------------------------------------------------------------

    def add(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Return `input + alpha * other`."""
        return ops.add(self, other, alpha=alpha)

    def sub(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Return `input - alpha * other`."""
        return ops.sub(self, other, alpha=alpha)

    def mul(self, other: Any) -> Tensor:
        """Return `input * other`."""
        return ops.mul(self, other)

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """Return `input / other`; with `rounding_mode` "floor" or "trunc" rounded, integers then staying integers."""
        return ops.div(self, other, rounding_mode=rounding_mode)

    def floor_divide(self, other: Any) -> Tensor:
        """Return `input / other` rounded towards minus infinity."""
        return ops.floor_divide(self, other)

    def remainder(self, other: Any) -> Tensor:
        """Return the remainder of `input / other`, with the sign of `other`, as Python's `%`."""
        return ops.remainder(self, other)

    def fmod(self, other: Any) -> Tensor:
        """Return the remainder of `input / other`, with the sign of `input`, as C's fmod."""
        return ops.fmod(self, other)

    def pow(self, exponent: Any) -> Tensor:
        """Return `input ** exponent`; either may be a number."""
        return ops.pow(self, exponent)

    def maximum(self, other: Any) -> Tensor:
        """Return the greater of the two, elementwise; NaN where either is."""
        return ops.maximum(self, other)

    def minimum(self, other: Any) -> Tensor:
        """Return the smaller of the two, elementwise; NaN where either is."""
        return ops.minimum(self, other)

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """Return `input` limited to [min, max]; bounds are numbers, tensors, or None."""
        return ops.clamp(self, min, max)

    def clamp_min(self, min: Any) -> Tensor:
        """Return the tensor, but at least `min`."""
        return ops.clamp_min(self, min)

    def clamp_max(self, max: Any) -> Tensor:
        """Return the tensor, but at most `max`."""
        return ops.clamp_max(self, max)

    def atan2(self, other: Any) -> Tensor:
        """Return the angle of the point (other, input)."""
        return ops.atan2(self, other)

    def logaddexp(self, other: Any) -> Tensor:
        """Return `log(exp(input) + exp(other))` without overflow."""
        return ops.logaddexp(self, other)

    def hypot(self, other: Any) -> Tensor:
        """Return `sqrt(input**2 + other**2)` without overflow."""
        return ops.hypot(self, other)

    def lerp(self, end: Any, weight: Any) -> Tensor:
        """Return `input + weight * (end - input)`."""
        return ops.lerp(self, end, weight)

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Return `input + value * tensor1 * tensor2`."""
        return ops.addcmul(self, tensor1, tensor2, value=value)

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Return `input + value * tensor1 / tensor2`."""
        return ops.addcdiv(self, tensor1, tensor2, value=value)

    # ---- functions of one operand ------------------------------------------------------------------------------------

    def neg(self) -> Tensor:
        """Return `-input`."""
        return ops.neg(self)

    def abs(self) -> Tensor:
        """Return the absolute value."""
        return ops.abs(self)

    def sign(self) -> Tensor:
        """Return the sign of real numbers: -1, 0 or 1."""
        return ops.sign(self)

    def sgn(self) -> Tensor:
        """Return the sign: of real numbers -1, 0 or 1; of complex ones, the number of size one in their direction."""
        return ops.sgn(self)

    def square(self) -> Tensor:
        """Return `input * input`."""
        return ops.square(self)

    def reciprocal(self) -> Tensor:
        """Return `1 / input`."""
        return ops.reciprocal(self)

    def sqrt(self) -> Tensor:
        """Return the square root."""
        return ops.sqrt(self)

    def rsqrt(self) -> Tensor:
        """Return `1 / sqrt(input)`."""
        return ops.rsqrt(self)

    def exp(self) -> Tensor:
        """Return e to the power of `input`."""
        return ops.exp(self)

    def expm1(self) -> Tensor:
        """Return `exp(input) - 1`, precise near zero."""
        return ops.expm1(self)

    def log(self) -> Tensor:
        """Return the natural logarithm."""
        return ops.log(self)

    def log1p(self) -> Tensor:
        """Return `log(1 + input)`, precise near zero."""
        return ops.log1p(self)

    def log2(self) -> Tensor:
        """Return the logarithm to base 2."""
        return ops.log2(self)

    def log10(self) -> Tensor:
        """Return the logarithm to base 10."""
        return ops.log10(self)

    def sin(self) -> Tensor:
        """Return the sine."""
        return ops.sin(self)

    def cos(self) -> Tensor:
        """Return the cosine."""
        return ops.cos(self)

    def tan(self) -> Tensor:
        """Return the tangent."""
        return ops.tan(self)

    def asin(self) -> Tensor:
        """Return the inverse sine."""
        return ops.asin(self)

    def acos(self) -> Tensor:
        """Return the inverse cosine."""
        return ops.acos(self)

    def atan(self) -> Tensor:
        """Return the inverse tangent."""
        return ops.atan(self)

    def sinh(self) -> Tensor:
        """Return the hyperbolic sine."""
        return ops.sinh(self)

    def cosh(self) -> Tensor:
        """Return the hyperbolic cosine."""
        return ops.cosh(self)

    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent."""
        return ops.tanh(self)

    def asinh(self) -> Tensor:
        """Return the inverse hyperbolic sine."""
        return ops.asinh(self)

    def acosh(self) -> Tensor:
        """Return the inverse hyperbolic cosine."""
        return ops.acosh(self)

    def atanh(self) -> Tensor:
        """Return the inverse hyperbolic tangent."""
        return ops.atanh(self)

    def sigmoid(self) -> Tensor:
        """Return `1 / (1 + exp(-input))`."""
        return ops.sigmoid(self)

    def relu(self) -> Tensor:
        """Return `max(input, 0)`; its derivative at 0 is 0."""
        return ops.relu(self)

    def erf(self) -> Tensor:
        """Return the error function."""
        return ops.erf(self)

    def floor(self) -> Tensor:
        """Return the greatest integers not above."""
        return ops.floor(self)

    def ceil(self) -> Tensor:
        """Return the smallest integers not below."""
        return ops.ceil(self)

    def trunc(self) -> Tensor:
        """Return `input` rounded towards zero."""
        return ops.trunc(self)

    def softmax(self, dim: int, dtype: Any = None) -> Tensor:
        """Return `exp(input)` divided by its sum along `dim`."""
        return ops.softmax(self, dim, dtype)

    def log_softmax(self, dim: int, dtype: Any = None) -> Tensor:
        """Return the logarithm of `softmax`, computed without overflow."""
        return ops.log_softmax(self, dim, dtype)

    # ---- comparisons and logic ---------------------------------------------------------------------------------------

    def eq(self, other: Any) -> Tensor:
        """Return where `input == other`, elementwise."""
        return ops.eq(self, other)

    def ne(self, other: Any) -> Tensor:
        """Return where `input != other`, elementwise."""
        return ops.ne(self, other)

    def lt(self, other: Any) -> Tensor:
        """Return where `input < other`, elementwise."""
        return ops.lt(self, other)

    def le(self, other: Any) -> Tensor:
        """Return where `input <= other`, elementwise."""
        return ops.le(self, other)

    def gt(self, other: Any) -> Tensor:
        """Return where `input > other`, elementwise."""
        return ops.gt(self, other)

    def ge(self, other: Any) -> Tensor:
        """Return where `input >= other`, elementwise."""
        return ops.ge(self, other)

    def logical_and(self, other: Any) -> Tensor:
        """Return where both are nonzero."""
        return ops.logical_and(self, other)

    def logical_or(self, other: Any) -> Tensor:
        """Return where either is nonzero."""
        return ops.logical_or(self, other)

    def logical_xor(self, other: Any) -> Tensor:
        """Return where exactly one is nonzero."""
        return ops.logical_xor(self, other)

    def logical_not(self) -> Tensor:
        """Return where `input` is zero."""
        return ops.logical_not(self)

    def bitwise_and(self, other: Any) -> Tensor:
        """Return `input & other`."""
        return ops.bitwise_and(self, other)

    def bitwise_or(self, other: Any) -> Tensor:
        """Return `input | other`."""
        return ops.bitwise_or(self, other)

    def bitwise_xor(self, other: Any) -> Tensor:
        """Return `input ^ other`."""
        return ops.bitwise_xor(self, other)

    def bitwise_not(self) -> Tensor:
        """Return `~input`."""
        return ops.bitwise_not(self)

    def isnan(self) -> Tensor:
        """Return where `input` is not a number."""
        return ops.isnan(self)

    def isinf(self) -> Tensor:
        """Return where `input` is infinite."""
        return ops.isinf(self)

    def isfinite(self) -> Tensor:
        """Return where `input` is neither infinite nor NaN."""
        return ops.isfinite(self)

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """Return `input` with `value` where `mask` holds."""
        return ops.masked_fill(self, mask, value)

    # ---- reductions --------------------------------------------------------------------------------------------------

    def sum(self, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """Return the sum over `dim`, all dimensions by default; integers are summed as int64."""
        return ops.sum(self, dim, keepdim, dtype=dtype)

    def mean(self, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """Return the mean over `dim`, all dimensions by default."""
        return ops.mean(self, dim, keepdim, dtype=dtype)

    def prod(self, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """Return the product over one dimension, or of all elements."""
        return ops.prod(self, dim, keepdim, dtype=dtype)

    def var(
        self,
        dim: int | Sequence[int] | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Tensor:
        """Return the variance over `dim`, divided by the count less `correction` (1 by default)."""
        return ops.var(self, dim, unbiased, keepdim, correction=correction)

    def std(
        self,
        dim: int | Sequence[int] | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Tensor:
        """Return the standard deviation over `dim`; see `var`."""
        return ops.std(self, dim, unbiased, keepdim, correction=correction)

    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Return the greatest element; with `dim` also where along it; with a tensor, the greater of the two."""
        return ops.max(self, dim, keepdim)

    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Return the smallest element; with `dim` also where along it; with a tensor, the smaller of the two."""
        return ops.min(self, dim, keepdim)

    def amax(self, dim: int | Sequence[int] | None = (), keepdim: bool = False) -> Tensor:
        """Return the greatest element over `dim`; equal ones share the gradient."""
        return ops.amax(self, dim, keepdim)

    def amin(self, dim: int | Sequence[int] | None = (), keepdim: bool = False) -> Tensor:
        """Return the smallest element over `dim`; equal ones share the gradient."""
        return ops.amin(self, dim, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Return the index of the greatest element: along `dim`, or in the flattened tensor."""
        return ops.argmax(self, dim, keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Return the index of the smallest element: along `dim`, or in the flattened tensor."""
        return ops.argmin(self, dim, keepdim)

    def argsort(self, dim: int = -1, descending: bool = False) -> Tensor:
        """Return the indices that sort the tensor along `dim`; equal elements keep their order."""
        return ops.argsort(self, dim, descending)

    def sort(self, dim: int = -1, descending: bool = False) -> Any:
        """Return the elements sorted along `dim`, and where they were."""
        return ops.sort(self, dim, descending)

    def topk(self, k: int, dim: int = -1, largest: bool = True) -> Any:
        """Return the `k` greatest elements along `dim` (or the smallest), in order, and where they were."""
        return ops.topk(self, k, dim, largest)

    def all(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Return whether all elements over `dim` are nonzero."""
        return ops.all(self, dim, keepdim)

    def any(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Return whether any element over `dim` is nonzero."""
        return ops.any(self, dim, keepdim)

    def logsumexp(self, dim: int | Sequence[int] | None, keepdim: bool = False) -> Tensor:
        """Return `log(sum(exp(input)))` over `dim`, without overflow."""
        return ops.logsumexp(self, dim, keepdim)

    def cumsum(self, dim: int, *, dtype: Any = None) -> Tensor:
        """Return the running sum along `dim`."""
        return ops.cumsum(self, dim, dtype=dtype)

    def norm(
        self, p: Any = 2, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: Any = None
    ) -> Tensor:
        """Return the p-norm of the elements over `dim`; "fro" and 2 are the Euclidean norm."""
        return ops.norm(self, p, dim, keepdim, dtype)

    # ---- products ----------------------------------------------------------------------------------------------------

    def matmul(self, other: Any) -> Tensor:
        """Return the product of matrices, of vectors, or of batches of matrices."""
        return ops.matmul(self, other)

    def mm(self, mat2: Any) -> Tensor:
        """Return the product of two matrices."""
        return ops.mm(self, mat2)

    def bmm(self, mat2: Any) -> Tensor:
        """Return the products of two batches of matrices of equal length."""
        return ops.bmm(self, mat2)

    def mv(self, vec: Any) -> Tensor:
        """Return the product of a matrix and a vector."""
        return ops.mv(self, vec)

    def dot(self, tensor: Any) -> Tensor:
        """Return the sum of products of two vectors."""
        return ops.dot(self, tensor)

    def outer(self, vec2: Any) -> Tensor:
        """Return the matrix of all products of the elements of two vectors."""
        return ops.outer(self, vec2)

    def addmm(self, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return `beta * input + alpha * (mat1 @ mat2)`."""
        return ops.addmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def trace(self) -> Tensor:
        """Return the sum of a matrix's diagonal."""
        return ops.trace(self)
