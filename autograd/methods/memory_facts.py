"""What code asks of a tensor before it handles it: its kind of storage, its bytes, and its place in memory.

Tensors are dense, with strides, in memory of their own kind of device: of the other kinds that PyTorch has, none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from raygrad.errors import AutogradError

from ..core.array_layout import axis_order_of
from ..core.batched_data import Batched
from ..core.layout import Layout, strided
from ..devices.serving import is_device_array
from ..storage.storage import note_exported
from ..storage.stride_geometry import layout_in_memory

if TYPE_CHECKING:
    from ..core.size import Size
    from ..tensor.tensor import Tensor


class MemoryFacts:
    """Facts about kind and memory; a mixin of `Tensor`."""

    if TYPE_CHECKING:

        @property
        def shape(self) -> Size: ...
        @property
        def dtype(self) -> np.dtype[Any]: ...
        def read(self) -> np.ndarray[Any, Any]: ...

    layout: ClassVar[Layout] = strided
    is_sparse: ClassVar[bool] = False
    is_sparse_csr: ClassVar[bool] = False
    is_quantized: ClassVar[bool] = False
    is_meta: ClassVar[bool] = False
    is_mkldnn: ClassVar[bool] = False
    is_nested: ClassVar[bool] = False
    is_mps: ClassVar[bool] = False
    is_xpu: ClassVar[bool] = False
    is_xla: ClassVar[bool] = False

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements that it shows, whether they lie together or not."""
        return math.prod(self.shape) * self.dtype.itemsize

    def is_conj(self) -> bool:
        """Tell whether the elements in memory are to be conjugated when read: never, `conj` computes them."""
        return False

    def is_neg(self) -> bool:
        """Tell whether the elements in memory are to be negated when read: never."""
        return False

    def is_shared(self) -> bool:
        """Tell whether the memory is shared between processes, as on a GPU."""
        return cast("Tensor", self).device.type != "cpu"

    def storage_offset(self) -> int:
        """Return where the first element lies in the memory that the tensor shares, counted in elements.

        Raises:
            RuntimeError: that is not known: a view whose steps only its kernel knows, or one example under `vmap`.
        """
        tensor = cast("Tensor", self)
        held = None if type(tensor._data) is Batched else layout_in_memory(tensor)
        if held is None:
            raise AutogradError("storage_offset: where this tensor lies in the memory that it shares is not known")
        return held.start // held.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first element; in a session, waits for the data. What is written there by other
        means is not noticed by autograd, as with `numpy()`."""
        array: Any = self.read()
        note_exported(cast("Tensor", self))
        if is_device_array(array):
            return int(array.data.ptr)
        return int(array.__array_interface__["data"][0]) if array.size else 0

    def dim_order(self) -> tuple[int, ...]:
        """Return the dimensions from the one with the largest steps in memory to that with the smallest; in a session,
        waits for the data."""
        return axis_order_of(self.read())
