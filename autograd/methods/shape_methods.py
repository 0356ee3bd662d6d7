"""Tensor methods about shape, dtype and device whose signatures differ from the functions: reshape, to, expand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from raygrad.errors import DeviceError, ShapeError

from .. import ops
from ..core import dtypes
from ..core.memory_format import MemoryFormat, channels_last, contiguous_format
from ..core.size import Size
from ..devices import Device
from ..devices.serving import CPU, as_device
from ..dispatch import creation
from ..dispatch.argument_errors import explaining_method
from ..registry.define_op import axis_of, sizes_of
from .operators import Operators

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


def _names_device(value: Any) -> bool:
    """Tell whether an argument of `to` is a device: one itself, a number, or a name that is no dtype's."""
    if isinstance(value, Device) or type(value) is int:
        return True
    return isinstance(value, str) and value not in dtypes.known() and value not in _DTYPE_NAMES


_DTYPE_NAMES = frozenset(("half", "float", "double", "short", "int", "long", "bool", "complex"))


def _conversion(name: str, dtype: np.dtype[Any]) -> Callable[..., Tensor]:
    """Return the method that converts a tensor to a dtype."""

    def convert(self: Any, memory_format: Any = None) -> Tensor:
        return self.to(dtype, memory_format=memory_format)

    convert.__name__, convert.__qualname__ = name, f"ShapeMethods.{name}"
    convert.__doc__ = f"Return the tensor as {dtype}."
    return convert


def _listed(method: str, args: tuple[Any, ...], named: Any) -> tuple[int, ...]:
    """Return ints given one by one, as one sequence, or by name.

    Raises:
        TypeError: in two of these ways, or none of them.
    """
    if named is None:
        return sizes_of(args)
    if args:
        raise TypeError(f"{method}() got its ints twice: {args!r} and, by name, {named!r}")
    return sizes_of((named,))


class ShapeMethods(Operators):
    """Shapes, dtypes, and what a tensor is."""

    if TYPE_CHECKING:

        @property
        def shape(self) -> Size: ...
        @property
        def dtype(self) -> np.dtype[Any]: ...
        @property
        def ndim(self) -> int: ...
        @property
        def device(self) -> Device: ...
        def read(self) -> np.ndarray[Any, Any]: ...

    # ---- shape -------------------------------------------------------------------------------------------------------

    def reshape(self, *args: Any, shape: Any = None) -> Tensor:
        """Return the elements in another shape: a view where possible, else a copy."""
        return ops.reshape(self, _listed("reshape", args, shape))

    @explaining_method
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

    @explaining_method
    def view_as(self, other: Tensor) -> Tensor:
        """Return a view in the shape of `other`."""
        return ops.view(self, other.shape)

    def ravel(self) -> Tensor:
        """Return the tensor with all dimensions made one."""
        return ops.flatten(self)

    def permute(self, *args: Any, dims: Any = None) -> Tensor:
        """Return a view with the dimensions in another order."""
        return ops.permute(self, _listed("permute", args, dims))

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
        """A matrix transposed and conjugated.

        Raises:
            RuntimeError: it is a vector, or has more than two dimensions.
        """
        if self.ndim not in (0, 2):
            raise ShapeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
        return ops.conj(ops.t(self))

    def expand(self, *args: Any, size: Any = None) -> Tensor:
        """Return a view expanded to `size`, without copying; -1 keeps an extent."""
        return ops.expand(self, _listed("expand", args, size))

    def broadcast_to(self, size: Any) -> Tensor:
        """Return a view expanded to `size`."""
        return ops.expand(self, size)

    def flip(self, *args: Any, dims: Any = None) -> Tensor:
        """Return a copy with the order of elements along `dims` reversed."""
        return ops.flip(self, _listed("flip", args, dims))

    def polygamma(self, n: int) -> Tensor:
        """Return the `n`-th derivative of `digamma`."""
        return ops.polygamma(n, self)

    @explaining_method
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

    # ---- dtypes ------------------------------------------------------------------------------------------------------

    def to(
        self,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        non_blocking: bool = False,
        copy: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        """Return the tensor on a device and in a dtype, or in those of another tensor: itself if it is so already,
        unless a `copy` is asked for. With a memory format, its axes lie in that order.

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
            moved = ops.to_dtype(moved, wanted)
        elif copy and moved is self:
            moved = ops.clone(moved)
        return moved if memory_format is None else ops.in_memory_format(moved, memory_format)

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

    float = _conversion("float", dtypes.float32)
    double = _conversion("double", dtypes.float64)
    half = _conversion("half", dtypes.float16)
    long = _conversion("long", dtypes.int64)
    int = _conversion("int", dtypes.int32)
    short = _conversion("short", dtypes.int16)
    char = _conversion("char", dtypes.int8)
    byte = _conversion("byte", dtypes.uint8)
    bool = _conversion("bool", dtypes.bool)
    cfloat = _conversion("cfloat", dtypes.complex64)
    cdouble = _conversion("cdouble", dtypes.complex128)

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

    def is_contiguous(self, memory_format: MemoryFormat = contiguous_format) -> bool:
        """Tell whether the data is dense in C order, or in that of a memory format; in a session, waits for it."""
        array: Any = self.read()
        if memory_format is contiguous_format:
            return array.flags.c_contiguous
        order = memory_format.axis_order(4 if memory_format is channels_last else 5)
        return len(order or ()) == array.ndim and ops.lies_in_order(array, order)

    def stride(self, dim: int | None = None) -> Any:
        """Return the steps in memory along the dimensions, in elements; in a session, waits for the data."""
        array = self.read()
        steps = tuple([step // array.itemsize for step in array.strides])
        return steps if dim is None else steps[dim]

    @explaining_method
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

    def new_empty(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """Return a tensor of this one's dtype and device whose elements are yet to be written."""
        wanted, place = self.dtype if dtype is None else dtype, self.device if device is None else device
        return creation.empty(sizes_of(size), dtype=wanted, device=place, requires_grad=requires_grad)

    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """Return ones of this tensor's dtype and device."""
        return self.new_full(sizes_of(size), 1, dtype=dtype, device=device, requires_grad=requires_grad)

    def new_full(
        self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """Return a tensor of this one's dtype and device filled with one number."""
        return creation.new_full(cast("Any", self), size, fill_value, dtype, device, requires_grad)
