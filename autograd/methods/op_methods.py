"""Signatures and contracts, without bodies, of tensor methods that are catalogue functions: arithmetic, reductions,
products.

`function_methods.bind` puts the function of each name in its place, so a call of a method is a call of the function.
`layout_methods` declares those that index and reorder; `shape_methods` defines the methods with signatures of their
own, `operators` the operators.
"""

# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .function_methods import FunctionMethods, bind
from .inplace_methods import (
    BinaryInPlace,
    ComparisonInPlace,
    ElementwiseInPlace,
    SameDtypeInPlace,
    ScatterInPlace,
    UnaryInPlace,
    ViewInPlace,
)
from .layout_methods import LayoutMethods
from .shape_methods import ShapeMethods

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


class TensorMethods(
    ShapeMethods,
    LayoutMethods,
    FunctionMethods,
    UnaryInPlace,
    BinaryInPlace,
    ElementwiseInPlace,
    ComparisonInPlace,
    SameDtypeInPlace,
    ScatterInPlace,
    ViewInPlace,
):
    """Methods of tensors. Each takes what the function of the same name takes, the tensor being the first."""

    # ---- arithmetic --------------------------------------------------------------------------------------------------

    def add(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Return `input + alpha * other`."""

    def sub(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Return `input - alpha * other`."""

    def mul(self, other: Any) -> Tensor:
        """Return `input * other`."""

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """Return `input / other`; with `rounding_mode` "floor" or "trunc" rounded, integers then staying integers."""

    def floor_divide(self, other: Any) -> Tensor:
        """Return `input / other` rounded towards minus infinity."""

    def remainder(self, other: Any) -> Tensor:
        """Return the remainder of `input / other`, with the sign of `other`, as Python's `%`."""

    def fmod(self, other: Any) -> Tensor:
        """Return the remainder of `input / other`, with the sign of `input`, as C's fmod."""

    def pow(self, exponent: Any) -> Tensor:
        """Return `input ** exponent`; either may be a number."""

    def maximum(self, other: Any) -> Tensor:
        """Return the greater of the two, elementwise; NaN where either is."""

    def minimum(self, other: Any) -> Tensor:
        """Return the smaller of the two, elementwise; NaN where either is."""

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """Return `input` limited to [min, max]; bounds are numbers, tensors, or None."""

    def clamp_min(self, min: Any) -> Tensor:
        """Return the tensor, but at least `min`."""

    def clamp_max(self, max: Any) -> Tensor:
        """Return the tensor, but at most `max`."""

    def atan2(self, other: Any) -> Tensor:
        """Return the angle of the point (other, input)."""

    def logaddexp(self, other: Any) -> Tensor:
        """Return `log(exp(input) + exp(other))` without overflow."""

    def hypot(self, other: Any) -> Tensor:
        """Return `sqrt(input**2 + other**2)` without overflow."""

    def lerp(self, end: Any, weight: Any) -> Tensor:
        """Return `input + weight * (end - input)`."""

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Return `input + value * tensor1 * tensor2`."""

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Return `input + value * tensor1 / tensor2`."""

    # ---- functions of one operand ------------------------------------------------------------------------------------

    def neg(self) -> Tensor:
        """Return `-input`."""

    def abs(self) -> Tensor:
        """Return the absolute value."""

    def sign(self) -> Tensor:
        """Return the sign of real numbers: -1, 0 or 1."""

    def sgn(self) -> Tensor:
        """Return the sign: of real numbers -1, 0 or 1; of complex ones, the number of size one in their direction."""

    def square(self) -> Tensor:
        """Return `input * input`."""

    def reciprocal(self) -> Tensor:
        """Return `1 / input`."""

    def sqrt(self) -> Tensor:
        """Return the square root."""

    def rsqrt(self) -> Tensor:
        """Return `1 / sqrt(input)`."""

    def exp(self) -> Tensor:
        """Return e to the power of `input`."""

    def expm1(self) -> Tensor:
        """Return `exp(input) - 1`, precise near zero."""

    def log(self) -> Tensor:
        """Return the natural logarithm."""

    def log1p(self) -> Tensor:
        """Return `log(1 + input)`, precise near zero."""

    def log2(self) -> Tensor:
        """Return the logarithm to base 2."""

    def log10(self) -> Tensor:
        """Return the logarithm to base 10."""

    def sin(self) -> Tensor:
        """Return the sine."""

    def cos(self) -> Tensor:
        """Return the cosine."""

    def tan(self) -> Tensor:
        """Return the tangent."""

    def asin(self) -> Tensor:
        """Return the inverse sine."""

    def acos(self) -> Tensor:
        """Return the inverse cosine."""

    def atan(self) -> Tensor:
        """Return the inverse tangent."""

    def sinh(self) -> Tensor:
        """Return the hyperbolic sine."""

    def cosh(self) -> Tensor:
        """Return the hyperbolic cosine."""

    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent."""

    def asinh(self) -> Tensor:
        """Return the inverse hyperbolic sine."""

    def acosh(self) -> Tensor:
        """Return the inverse hyperbolic cosine."""

    def atanh(self) -> Tensor:
        """Return the inverse hyperbolic tangent."""

    def sigmoid(self) -> Tensor:
        """Return `1 / (1 + exp(-input))`."""

    def relu(self) -> Tensor:
        """Return `max(input, 0)`; its derivative at 0 is 0."""

    def erf(self) -> Tensor:
        """Return the error function."""

    def floor(self) -> Tensor:
        """Return the greatest integers not above."""

    def ceil(self) -> Tensor:
        """Return the smallest integers not below."""

    def trunc(self) -> Tensor:
        """Return `input` rounded towards zero."""

    def softmax(self, dim: int, dtype: Any = None) -> Tensor:
        """Return `exp(input)` divided by its sum along `dim`."""

    def log_softmax(self, dim: int, dtype: Any = None) -> Tensor:
        """Return the logarithm of `softmax`, computed without overflow."""

    # ---- comparisons and logic ---------------------------------------------------------------------------------------

    def eq(self, other: Any) -> Tensor:
        """Return where `input == other`, elementwise."""

    def ne(self, other: Any) -> Tensor:
        """Return where `input != other`, elementwise."""

    def lt(self, other: Any) -> Tensor:
        """Return where `input < other`, elementwise."""

    def le(self, other: Any) -> Tensor:
        """Return where `input <= other`, elementwise."""

    def gt(self, other: Any) -> Tensor:
        """Return where `input > other`, elementwise."""

    def ge(self, other: Any) -> Tensor:
        """Return where `input >= other`, elementwise."""

    def logical_and(self, other: Any) -> Tensor:
        """Return where both are nonzero."""

    def logical_or(self, other: Any) -> Tensor:
        """Return where either is nonzero."""

    def logical_xor(self, other: Any) -> Tensor:
        """Return where exactly one is nonzero."""

    def logical_not(self) -> Tensor:
        """Return where `input` is zero."""

    def bitwise_and(self, other: Any) -> Tensor:
        """Return `input & other`."""

    def bitwise_or(self, other: Any) -> Tensor:
        """Return `input | other`."""

    def bitwise_xor(self, other: Any) -> Tensor:
        """Return `input ^ other`."""

    def bitwise_not(self) -> Tensor:
        """Return `~input`."""

    def isnan(self) -> Tensor:
        """Return where `input` is not a number."""

    def isinf(self) -> Tensor:
        """Return where `input` is infinite."""

    def isfinite(self) -> Tensor:
        """Return where `input` is neither infinite nor NaN."""

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """Return `input` with `value` where `mask` holds."""

    # ---- reductions --------------------------------------------------------------------------------------------------

    def sum(self, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """Return the sum over `dim`, all dimensions by default; integers are summed as int64."""

    def mean(self, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """Return the mean over `dim`, all dimensions by default."""

    def prod(self, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """Return the product over one dimension, or of all elements."""

    def var(
        self,
        dim: int | Sequence[int] | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Tensor:
        """Return the variance over `dim`, divided by the count less `correction` (1 by default)."""

    def std(
        self,
        dim: int | Sequence[int] | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Tensor:
        """Return the standard deviation over `dim`; see `var`."""

    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Return the greatest element; with `dim` also where along it; with a tensor, the greater of the two."""

    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Return the smallest element; with `dim` also where along it; with a tensor, the smaller of the two."""

    def amax(self, dim: int | Sequence[int] | None = (), keepdim: bool = False) -> Tensor:
        """Return the greatest element over `dim`; equal ones share the gradient."""

    def amin(self, dim: int | Sequence[int] | None = (), keepdim: bool = False) -> Tensor:
        """Return the smallest element over `dim`; equal ones share the gradient."""

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Return the index of the greatest element: along `dim`, or in the flattened tensor."""

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Return the index of the smallest element: along `dim`, or in the flattened tensor."""

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
        """Return the indices that sort the tensor along `dim`; equal elements keep their order, `stable` or not."""

    def sort(self, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
        """Return the elements sorted along `dim`, and where they were; equal ones keep their order, `stable` or not."""

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """Return the `k` greatest elements along `dim` (or the smallest), and where they were: in order, `sorted` or
        not."""

    def all(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Return whether all elements over `dim` are nonzero."""

    def any(self, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Return whether any element over `dim` is nonzero."""

    def logsumexp(self, dim: int | Sequence[int] | None, keepdim: bool = False) -> Tensor:
        """Return `log(sum(exp(input)))` over `dim`, without overflow."""

    def cumsum(self, dim: int, *, dtype: Any = None) -> Tensor:
        """Return the running sum along `dim`."""

    def norm(
        self, p: Any = "fro", dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: Any = None
    ) -> Tensor:
        """Return the p-norm of the elements over `dim`; "fro" and 2 are Euclidean, "nuc" is the nuclear norm."""

    # ---- products ----------------------------------------------------------------------------------------------------

    def matmul(self, other: Any) -> Tensor:
        """Return the product of matrices, of vectors, or of batches of matrices."""

    def mm(self, mat2: Any) -> Tensor:
        """Return the product of two matrices."""

    def bmm(self, mat2: Any) -> Tensor:
        """Return the products of two batches of matrices of equal length."""

    def mv(self, vec: Any) -> Tensor:
        """Return the product of a matrix and a vector."""

    def dot(self, tensor: Any) -> Tensor:
        """Return the sum of products of two vectors."""

    def outer(self, vec2: Any) -> Tensor:
        """Return the matrix of all products of the elements of two vectors."""

    def addmm(self, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return `beta * input + alpha * (mat1 @ mat2)`."""

    def trace(self) -> Tensor:
        """Return the sum of a matrix's diagonal."""


bind(TensorMethods, LayoutMethods)
