"""In-place tensor methods with a rule of their own: `add_`, `copy_`, `fill_`, `scatter_`, random fills and the like.

Each makes its new value by an op of the catalogue, and `mutation.inplace` puts it into the tensor. Methods that are
just a function in place are listed in `inplace_methods`.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from raygrad.errors import AutogradError

from .. import ops
from ..dispatch.argument_errors import as_method
from ..dispatch.random_numbers import rand_like, randn_like
from ..dispatch.spellings import taking_spellings
from ..mutation.inplace import in_place, of_part, set_item
from ..mutation.overlap import check_apart, check_partial

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

_OPS = SimpleNamespace(
    **{
        name: as_method(getattr(ops, name), name)
        for name in "addcdiv addcmul clamp index_add lerp masked_fill scatter scatter_add".split()
    }
)
"""Functions that refuse numbers for tensors."""


class InPlaceOps:
    """Methods that change a tensor in place."""

    @taking_spellings
    def add_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Add `alpha * other` in place."""
        return in_place(self, lambda old: ops.add(old, other, alpha=alpha), other)

    @taking_spellings
    def sub_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Subtract `alpha * other` in place."""
        return in_place(self, lambda old: ops.sub(old, other, alpha=alpha), other)

    @taking_spellings
    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """Divide by `other` in place."""
        return in_place(self, lambda old: ops.div(old, other, rounding_mode=rounding_mode), other)

    def abs_(self) -> Tensor:
        """Take the absolute value in place.

        Raises:
            RuntimeError: the tensor is complex, its absolute value is not.
        """
        return in_place(self, _abs_of_same_dtype)

    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """Limit to [min, max] in place."""
        return in_place(self, lambda old: _OPS.clamp(old, min, max), min, max)

    def polygamma_(self, n: int) -> Tensor:
        """Take the `n`-th derivative of `digamma` in place."""
        return in_place(self, lambda old: ops.polygamma(n, old))

    def lerp_(self, end: Any, weight: Any) -> Tensor:
        """Move towards `end` by `weight` of the way, in place."""
        return in_place(self, lambda old: _OPS.lerp(old, end, weight), end, weight)

    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Add `value * tensor1 * tensor2` in place."""
        return in_place(self, lambda old: _OPS.addcmul(old, tensor1, tensor2, value=value), tensor1, tensor2)

    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
        """Add `value * tensor1 / tensor2` in place."""
        return in_place(self, lambda old: _OPS.addcdiv(old, tensor1, tensor2, value=value), tensor1, tensor2)

    def masked_fill_(self, mask: Any, value: Any) -> Tensor:
        """Put `value` where `mask` holds, in place."""
        return in_place(self, lambda old: _OPS.masked_fill(old, mask, value), mask)

    @taking_spellings
    def index_add_(self, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
        """Add slices of `source` at the places that `index` names along `dim`, in place."""
        check_apart(self, index, source)
        return in_place(self, lambda old: _OPS.index_add(old, dim, index, source, alpha=alpha))

    @taking_spellings
    def scatter_(self, dim: int, index: Any, src: Any, *, reduce: str | None = None) -> Tensor:
        """Put elements of `src` at the places that `index` names along `dim`, or reduce them into these, in place."""
        check_apart(self, index, src)
        return in_place(self, lambda old: _OPS.scatter(old, dim, index, src, reduce=reduce))

    @taking_spellings
    def scatter_add_(self, dim: int, index: Any, src: Any) -> Tensor:
        """Add elements of `src` at the places that `index` names along `dim`, in place."""
        check_apart(self, index, src)
        return in_place(self, lambda old: _OPS.scatter_add(old, dim, index, src))

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
        return in_place(self, lambda old: randn_like(old) * std + mean)

    def uniform_(self, from_: float = 0.0, to: float = 1.0) -> Tensor:
        """Draw the elements evenly from between two numbers.

        Raises:
            RuntimeError: the second is smaller than the first.
        """
        if not from_ <= to:
            raise AutogradError(f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}")
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
    """Return the strided region of a main diagonal: shape, strides, offset and axis order."""
    if len(shape) < 2:
        raise AutogradError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise AutogradError("all dimensions of input must be of equal length")
    step = sum([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])
    extent = min(shape) if not wrap or len(shape) > 2 else -(-math.prod(shape) // step) if shape[1] else 0
    return (extent,), (step,), 0, tuple(range(len(shape)))


def _check_copied(tensor: Any, src: Any) -> None:
    """Raise if `src` has more dimensions than the tensor that it is copied to."""
    shape = getattr(src, "shape", ())
    if len(shape) > tensor.ndim:
        raise AutogradError(
            f"output with shape {list(tensor.shape)} doesn't match the broadcast shape {list(shape)} of the source"
        )


def _abs_of_same_dtype(old: Any) -> Any:
    if old.dtype.kind == "c":
        raise AutogradError("In-place abs is not supported for complex tensors.")
    return ops.abs(old)
