"""Methods of tensors about which elements stand where, and in what dtype.

Rules of this file: as in `methods.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raygrad.errors import DeviceError

from . import creation, dtypes, ops
from .devices import Device
from .devices.serving import CPU, as_device
from .operators import Operators
from .ops.define import axis_of, sizes_of

if TYPE_CHECKING:
    from .tensor import Tensor


def _names_device(value: Any) -> bool:
    """Tell whether an argument of `to` is a device: one itself, a number, or a name that is no dtype's."""
    if isinstance(value, Device) or type(value) is int:
        return True
    return isinstance(value, str) and value not in dtypes.known() and value not in _DTYPE_NAMES


_DTYPE_NAMES = frozenset(("half", "float", "double", "short", "int", "long", "bool", "complex"))


class ShapeMethods(Operators):
    """Indices, shapes, dtypes, and what a tensor is."""

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> np.dtype[Any]: ...
        @property
        def ndim(self) -> int: ...
        @property
        def device(self) -> Device: ...
        def read(self) -> np.ndarray[Any, Any]: ...

    # ---- indices -----------------------------------------------------------------------------------------------------

    def gather(self, dim: int, index: Any) -> Tensor:
        """Return `input[i][index[i][j][k]][k]` (for `dim` 1 of three), in the shape of `index`."""
        return ops.gather(self, dim, index)

    def index_select(self, dim: int, index: Any) -> Tensor:
        """Return the slices of `input` along `dim` that `index`, a vector, names."""
        return ops.index_select(self, dim, index)

    def index_add(self, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
        """Return `input` with the slices of `source` times `alpha` added where `index` names."""
        return ops.index_add(self, dim, index, source, alpha=alpha)

    def scatter(self, dim: int, index: Any, src: Any) -> Tensor:
        """Return `input` with the elements of `src` (or one number) put at the places that `gather` would read."""
        return ops.scatter(self, dim, index, src)

    def scatter_add(self, dim: int, index: Any, src: Any) -> Tensor:
        """Return `input` with the elements of `src` added at the places that `gather` would read."""
        return ops.scatter_add(self, dim, index, src)

    def take_along_dim(self, indices: Any, dim: int | None = None) -> Tensor:
        """Return the elements of `input` at `indices` along `dim`, the two broadcast to each other."""
        return ops.take_along_dim(self, indices, dim)

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """Return the indices of the elements that are not zero, one row each; in a session, waits for their number."""
        return ops.nonzero(self, as_tuple=as_tuple)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """Return a view of a diagonal, as the last dimension."""
        return ops.diagonal(self, offset, dim1, dim2)

    def diag(self, diagonal: int = 0) -> Tensor:
        """Return the diagonal of a matrix, or the matrix with a vector on its diagonal."""
        return ops.diag(self, diagonal)

    def tril(self, diagonal: int = 0) -> Tensor:
        """Return the lower triangle of the last two dimensions, zeros above."""
        return ops.tril(self, diagonal)

    def triu(self, diagonal: int = 0) -> Tensor:
        """Return the upper triangle of the last two dimensions, zeros below."""
        return ops.triu(self, diagonal)

    def select(self, dim: int, index: int) -> Tensor:
        """Return the slice at `index` of dimension `dim`."""
        return ops.select(self, dim, index)

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """Return `length` elements of dimension `dim` from `start` on."""
        return ops.narrow(self, dim, start, length)

    # ---- shape -------------------------------------------------------------------------------------------------------

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """Return `input` without its dimensions of extent one: all, or those among `dim`."""
        return ops.squeeze(self, dim)

    def unsqueeze(self, dim: int) -> Tensor:
        """Return `input` with a dimension of extent one put in at `dim`."""
        return ops.unsqueeze(self, dim)

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """Return `input` with dimension `dim` split into `sizes`."""
        return ops.unflatten(self, dim, sizes)

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Return `input` with the dimensions `source` moved to `destination`, the others in their order."""
        return ops.movedim(self, source, destination)

    def expand_as(self, other: Any) -> Tensor:
        """Return a view expanded to the shape of `other`."""
        return ops.expand_as(self, other)

    def split(self, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Return the pieces of `input` along `dim`: of one size (the last may be smaller), or of the given sizes."""
        return ops.split(self, split_size_or_sections, dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Return `input` split along `dim` into at most `chunks` pieces."""
        return ops.chunk(self, chunks, dim)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return the slices of `input` along `dim`, without that dimension."""
        return ops.unbind(self, dim)

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Tensor:
        """Return `input` with each element (or slice along `dim`) repeated in place."""
        return ops.repeat_interleave(self, repeats, dim)

    def clone(self) -> Tensor:
        """Return a copy, with the same axis order in memory."""
        return ops.clone(self)

    def reshape(self, *shape: Any) -> Tensor:
        """Return the elements in another shape: a view where possible, else a copy."""
        return ops.reshape(self, sizes_of(shape))

    def reshape_as(self, other: Tensor) -> Tensor:
        """Return the elements in the shape of `other`."""
        return ops.reshape(self, other.shape)

    def view(self, *shape: Any, dtype: Any = None) -> Tensor:
        """Return a view in another shape, or of the same bytes in another dtype, then without gradient; raises
        RuntimeError if only a copy could have it."""
        if dtype is None and len(shape) == 1 and dtypes.is_dtype(shape[0]):
            dtype, shape = shape[0], ()
        if dtype is None:
            return ops.view(self, sizes_of(shape))
        if shape:
            raise TypeError(f"view() takes a shape or a dtype; got both {shape!r} and {dtype}")
        return ops.view_dtype(self, dtype)

    def view_as(self, other: Tensor) -> Tensor:
        """Return a view in the shape of `other`."""
        return ops.view(self, other.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Return the tensor with the dimensions from `start_dim` to `end_dim` made one."""
        return ops.flatten(self, start_dim, end_dim)

    def ravel(self) -> Tensor:
        """Return the tensor with all dimensions made one."""
        return ops.flatten(self)

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Return a view with two dimensions exchanged."""
        return ops.transpose(self, dim0, dim1)

    swapaxes = swapdims = transpose

    def permute(self, *dims: Any) -> Tensor:
        """Return a view with the dimensions in another order."""
        return ops.permute(self, sizes_of(dims))

    def t(self) -> Tensor:
        """Return a matrix transposed."""
        return ops.t(self)

    @property
    def T(self) -> Tensor:
        """The tensor with its dimensions reversed."""
        return ops.permute(self, range(self.ndim)[::-1])

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two dimensions exchanged."""
        return ops.transpose(self, -2, -1)

    @property
    def mH(self) -> Tensor:
        """The tensor with its last two dimensions exchanged, conjugated."""
        return ops.adjoint(self)

    @property
    def H(self) -> Tensor:
        """A matrix transposed and conjugated."""
        return ops.conj(ops.t(self))

    def expand(self, *sizes: Any) -> Tensor:
        """Return a view expanded to `sizes`, without copying; -1 keeps an extent."""
        return ops.expand(self, sizes_of(sizes))

    def broadcast_to(self, size: Any) -> Tensor:
        """Return a view expanded to `size`."""
        return ops.expand(self, size)

    def repeat(self, *repeats: Any) -> Tensor:
        """Return the tensor repeated along each dimension."""
        return ops.repeat(self, *repeats)

    def tile(self, *dims: Any) -> Tensor:
        """Return the tensor repeated along each dimension, as NumPy's tile."""
        return ops.tile(self, *dims)

    def flip(self, *dims: Any) -> Tensor:
        """Return a copy with the order of elements along `dims` reversed."""
        return ops.flip(self, sizes_of(dims))

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """Return a copy with the elements shifted round."""
        return ops.roll(self, shifts, dims)

    def contiguous(self) -> Tensor:
        """Return the tensor dense in C order: itself if it is so already."""
        return ops.contiguous(self)

    def round(self, *, decimals: int = 0) -> Tensor:
        """Return the elements rounded to the nearest, halves to even."""
        return ops.round(self, decimals=decimals)

    def where(self, condition: Any, other: Any) -> Tensor:
        """Return this tensor where `condition` holds, `other` elsewhere."""
        return ops.where(condition, self, other)

    # ---- complex numbers ---------------------------------------------------------------------------------------------

    @property
    def real(self) -> Tensor:
        """The real part."""
        return ops.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part."""
        return ops.imag(self)

    def conj(self) -> Tensor:
        """Return the complex conjugate."""
        return ops.conj(self)

    # ---- dtypes ------------------------------------------------------------------------------------------------------

    def to(
        self,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        non_blocking: bool = False,
        copy: bool = False,
    ) -> Tensor:
        """Return the tensor on a device and in a dtype, or in those of another tensor: itself if it is so already,
        unless a `copy` is asked for.

        `to(device, dtype, non_blocking, copy)`, `to(dtype, non_blocking, copy)` and `to(other, non_blocking, copy)`;
        `non_blocking` is a permission: what is copied from or to the host is waited for.

        Raises:
            RuntimeError: there is no such device.
            TypeError: an argument is none of these.
        """
        given = list(args)
        if given and hasattr(given[0], "_data"):
            device, dtype = given[0].device, given.pop(0).dtype
        elif given and (given[0] is None or _names_device(given[0])):
            device = given.pop(0)
            if given and type(given[0]) is not bool:
                dtype = given.pop(0)
        elif given and type(given[0]) is not bool:
            dtype = given.pop(0)
            if given and _names_device(given[0]):
                device = given.pop(0)
        if given:
            non_blocking, *given = given
        if given:
            copy, *given = given
        if given or type(non_blocking) is not bool or type(copy) is not bool:
            raise TypeError(
                "to() takes (device, dtype, non_blocking, copy), (dtype, non_blocking, copy) or (other, non_blocking, "
                f"copy); got {args!r}"
            )
        wanted = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        place = self.device if device is None else as_device(device)
        moved: Tensor = ops.to_device(self, place)
        if wanted != self.dtype:
            return ops.to_dtype(moved, wanted)
        return ops.clone(moved) if copy and moved is self else moved

    def type(self, dtype: Any) -> Tensor:
        """Return the tensor in a dtype."""
        return self.to(dtype)

    def type_as(self, other: Tensor) -> Tensor:
        """Return the tensor in the dtype of `other`."""
        return self.to(other.dtype)

    def cpu(self) -> Tensor:
        """Return the tensor on the host: itself if it is there."""
        return ops.to_device(self, CPU)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        """Return the tensor on a GPU, the current one by default: itself if it is there.

        Raises:
            RuntimeError: there is no such device, or `device` names the host.
        """
        place = as_device("cuda" if device is None else device)
        if place.type != "cuda":
            raise DeviceError(f"Invalid device, must be cuda device; got '{place}'")
        return ops.to_device(self, place)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the data is on the host."""
        return self.device.type == "cpu"

    def get_device(self) -> int:
        """Return the number of the GPU that holds the data, -1 for the host."""
        index = self.device.index
        return -1 if index is None else index

    def float(self) -> Tensor:
        """Return the tensor as float32."""
        return self.to(dtypes.float32)

    def double(self) -> Tensor:
        """Return the tensor as float64."""
        return self.to(dtypes.float64)

    def half(self) -> Tensor:
        """Return the tensor as float16."""
        return self.to(dtypes.float16)

    def long(self) -> Tensor:
        """Return the tensor as int64."""
        return self.to(dtypes.int64)

    def int(self) -> Tensor:
        """Return the tensor as int32."""
        return self.to(dtypes.int32)

    def short(self) -> Tensor:
        """Return the tensor as int16."""
        return self.to(dtypes.int16)

    def char(self) -> Tensor:
        """Return the tensor as int8."""
        return self.to(dtypes.int8)

    def byte(self) -> Tensor:
        """Return the tensor as uint8."""
        return self.to(dtypes.uint8)

    def bool(self) -> Tensor:
        """Return the tensor as bool."""
        return self.to(dtypes.bool)

    def cfloat(self) -> Tensor:
        """Return the tensor as complex64."""
        return self.to(dtypes.complex64)

    def cdouble(self) -> Tensor:
        """Return the tensor as complex128."""
        return self.to(dtypes.complex128)

    # ---- what it is --------------------------------------------------------------------------------------------------

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the extent of one dimension."""
        return self.shape if dim is None else self.shape[axis_of(dim, self.ndim)]

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    nelement = numel

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Tell whether the dtype is floating."""
        return self.dtype.kind == "f"

    def is_complex(self) -> bool:
        """Tell whether the dtype is complex."""
        return self.dtype.kind == "c"

    def is_contiguous(self) -> bool:
        """Tell whether the data is dense in C order; in a session, waits for it."""
        return self.read().flags.c_contiguous

    def stride(self, dim: int | None = None) -> Any:
        """Return the steps in memory along the dimensions, in elements; in a session, waits for the data."""
        array = self.read()
        steps = tuple([step // array.itemsize for step in array.strides])
        return steps if dim is None else steps[dim]

    def equal(self, other: Tensor) -> bool:
        """Tell whether the other tensor has the same shape and elements."""
        return self.shape == other.shape and bool(ops.all(ops.eq(self, other)))

    # ---- new ones like it --------------------------------------------------------------------------------------------

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """Return a new tensor of this one's dtype and device, from data."""
        wanted, place = self.dtype if dtype is None else dtype, self.device if device is None else device
        return creation.tensor(data, dtype=wanted, device=place, requires_grad=requires_grad)

    def new_zeros(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """Return zeros of this tensor's dtype and device."""
        return self.new_full(sizes_of(size), 0, dtype=dtype, device=device, requires_grad=requires_grad)

    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """Return ones of this tensor's dtype and device."""
        return self.new_full(sizes_of(size), 1, dtype=dtype, device=device, requires_grad=requires_grad)

    def new_full(
        self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """Return a tensor of this one's dtype and device filled with one number."""
        wanted, place = self.dtype if dtype is None else dtype, self.device if device is None else device
        return creation.full(size, fill_value, dtype=wanted, device=place, requires_grad=requires_grad)
