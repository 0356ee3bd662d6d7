"""In-place tensor methods that draw the elements from a distribution: `bernoulli_`, `exponential_` and their kind.

`normal_` and `uniform_` are in `inplace_ops`. All follow from evenly or normally distributed numbers of the stream of
the moment.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from raygrad.errors import AutogradError

from .. import ops
from ..dispatch.random_numbers import rand, rand_like, randint, randn_like
from ..mutation.inplace import in_place

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


def _floating(name: str, tensor: Any) -> None:
    if tensor.dtype.kind != "f":
        raise AutogradError(f'"{name}" not implemented for {tensor.dtype}: convert it first, as by .float()')


class RandomFills:
    """Methods that fill a tensor with random numbers."""

    def bernoulli_(self: Any, p: Any = 0.5) -> Tensor:
        """Make each element one with probability `p`, a number or a tensor of them, else zero.

        Raises:
            RuntimeError: a number that is no probability.
        """
        if not hasattr(p, "shape") and not 0 <= p <= 1:
            raise AutogradError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
        chance = p.detach() if hasattr(p, "shape") else p
        return in_place(self, lambda old: ops.to_dtype(rand(old.shape, device=old.device) < chance, old.dtype))

    def exponential_(self: Any, lambd: float = 1.0) -> Tensor:
        """Draw the elements from an exponential distribution of rate `lambd`.

        Raises:
            RuntimeError: the rate is not positive, or the tensor not floating.
        """
        _floating("exponential_", self)
        if not lambd > 0:
            raise AutogradError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
        return in_place(self, lambda old: -ops.log1p(-rand_like(old)) / lambd)

    def geometric_(self: Any, p: float) -> Tensor:
        """Draw the elements from a geometric distribution: trials of chance `p` up to the first success.

        Raises:
            RuntimeError: `p` is not between 0 and 1, or the tensor is complex or of bools.
        """
        if self.dtype.kind not in "iuf":
            raise AutogradError(f'"geometric_" not implemented for {self.dtype}: it is for real numbers')
        if not 0 < p < 1:
            raise AutogradError(f"geometric_ expects p to be in (0, 1), but got p={p}")
        scale = math.log1p(-p)

        def draw(old: Any) -> Any:
            even = rand(old.shape, dtype=ops.zeros_as(old).double().dtype, device=old.device)
            return ops.to_dtype(ops.clamp_min(ops.ceil(ops.log1p(-even) / scale), 1), old.dtype)

        return in_place(self, draw)

    def cauchy_(self: Any, median: float = 0.0, sigma: float = 1.0) -> Tensor:
        """Draw the elements from a Cauchy distribution.

        Raises:
            RuntimeError: `sigma` is not positive, or the tensor not floating.
        """
        _floating("cauchy_", self)
        if not sigma > 0:
            raise AutogradError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
        return in_place(self, lambda old: ops.tan((rand_like(old) - 0.5) * math.pi) * sigma + median)

    def log_normal_(self: Any, mean: float = 1.0, std: float = 2.0) -> Tensor:
        """Draw the elements from a log-normal distribution; `mean` and `std` are those of the logarithm.

        Raises:
            RuntimeError: `std` is not positive, or the tensor not floating.
        """
        _floating("log_normal_", self)
        if not std > 0:
            raise AutogradError(f"log_normal_ expects std > 0.0, but found std={std}")
        return in_place(self, lambda old: ops.exp(randn_like(old) * std + mean))

    def random_(self: Any, from_: int = 0, to: int | None = None) -> Tensor:
        """Draw the elements from the integers in [from_, to); with one number, below that.

        Raises:
            RuntimeError: there are none.
        """
        if to is None:
            bits = {"f": 24 if self.dtype.itemsize == 4 else 53, "b": 1, "u": 8}
            low, high = (0, from_) if from_ else (0, 1 << bits.get(self.dtype.kind, 8 * self.dtype.itemsize - 2))
        else:
            low, high = from_, to
        if low >= high:
            raise AutogradError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        return in_place(self, lambda old: ops.to_dtype(randint(low, high, old.shape, device=old.device), old.dtype))
