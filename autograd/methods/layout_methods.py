"""Signatures and contracts, without bodies, of tensor methods that index, reshape and reorder.

`function_methods.bind` puts the function of each name in its place, as for `op_methods`.
"""

# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


class LayoutMethods:
    """Methods that select elements, and give them another shape or order."""

    # ---- indices -----------------------------------------------------------------------------------------------------

    def gather(self, dim: int, index: Any) -> Tensor:
        """Return `input[i][index[i][j][k]][k]` (for `dim` 1 of three), in the shape of `index`."""

    def index_select(self, dim: int, index: Any) -> Tensor:
        """Return the slices of `input` along `dim` that `index`, a vector, names."""

    def index_add(self, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
        """Return `input` with the slices of `source` times `alpha` added where `index` names."""

    def scatter(self, dim: int, index: Any, src: Any, *, reduce: str | None = None) -> Tensor:
        """Return `input` with the elements of `src` (or one number) put at the places that `gather` would read, or
        reduced into them."""

    def scatter_add(self, dim: int, index: Any, src: Any) -> Tensor:
        """Return `input` with the elements of `src` added at the places that `gather` would read."""

    def take_along_dim(self, indices: Any, dim: int | None = None) -> Tensor:
        """Return the elements of `input` at `indices` along `dim`, the two broadcast to each other."""

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """Return the indices of the elements that are not zero, one row each; in a session, waits for their number."""

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """Return a view of a diagonal, as the last dimension."""

    def diag(self, diagonal: int = 0) -> Tensor:
        """Return the diagonal of a matrix, or the matrix with a vector on its diagonal."""

    def tril(self, diagonal: int = 0) -> Tensor:
        """Return the lower triangle of the last two dimensions, zeros above."""

    def triu(self, diagonal: int = 0) -> Tensor:
        """Return the upper triangle of the last two dimensions, zeros below."""

    def select(self, dim: int, index: int) -> Tensor:
        """Return the slice at `index` of dimension `dim`."""

    def narrow(self, dim: int, start: Any, length: int) -> Tensor:
        """Return `length` elements of dimension `dim` from `start` on."""

    # ---- shape -------------------------------------------------------------------------------------------------------

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """Return `input` without its dimensions of extent one: all, or those among `dim`."""

    def unsqueeze(self, dim: int) -> Tensor:
        """Return `input` with a dimension of extent one put in at `dim`."""

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """Return `input` with dimension `dim` split into `sizes`."""

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Return `input` with the dimensions `source` moved to `destination`, the others in their order."""

    def expand_as(self, other: Any) -> Tensor:
        """Return a view expanded to the shape of `other`."""

    def split(self, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Return the pieces of `input` along `dim`: of one size (the last may be smaller), or of the given sizes."""

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Return `input` split along `dim` into at most `chunks` pieces."""

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return the slices of `input` along `dim`, without that dimension."""

    def repeat_interleave(
        self, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
    ) -> Tensor:
        """Return `input` with each element (or slice along `dim`) repeated in place."""

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """Return a copy, with the same axis order in memory, or in that of a memory format."""

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Return the tensor with the dimensions from `start_dim` to `end_dim` made one."""

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Return a view with two dimensions exchanged."""

    swapaxes = swapdims = transpose

    def t(self) -> Tensor:
        """Return a matrix transposed."""

    def repeat(self, *repeats: Any) -> Tensor:
        """Return the tensor repeated along each dimension."""

    def tile(self, *dims: Any) -> Tensor:
        """Return the tensor repeated along each dimension, as NumPy's tile."""

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """Return a copy with the elements shifted round."""

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """Return the tensor dense in C order, or in that of a memory format: itself if it is so already."""

    def round(self, *, decimals: int = 0) -> Tensor:
        """Return the elements rounded to the nearest, halves to even."""

    def conj(self) -> Tensor:
        """Return the complex conjugate."""
