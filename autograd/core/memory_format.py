"""Memory formats: PyTorch's names for the orders in which the axes of images lie in memory.

`Tensor.to`, `contiguous`, `clone`, `is_contiguous` and the conversions of dtype take them; `ops.in_memory_format` lays
a tensor out.
"""

from __future__ import annotations

from enum import Enum

from raygrad.errors import AutogradError


class MemoryFormat(Enum):
    """An order of axes in memory."""

    CONTIGUOUS = "contiguous_format"
    PRESERVE = "preserve_format"
    CHANNELS_LAST = "channels_last"
    CHANNELS_LAST_3D = "channels_last_3d"

    def __repr__(self) -> str:
        return f"raygrad.{self.value}"

    def axis_order(self, ndim: int) -> tuple[int, ...] | None:
        """Return the axes of a tensor from the slowest to the fastest; None to keep them as they are.

        Raises:
            RuntimeError: the format is for another number of dimensions.
        """
        if self is MemoryFormat.PRESERVE:
            return None
        if self is MemoryFormat.CONTIGUOUS:
            return tuple(range(ndim))
        wanted = 4 if self is MemoryFormat.CHANNELS_LAST else 5
        if ndim != wanted:
            raise AutogradError(f"required rank {wanted} tensor to use {self.value} format, got {ndim} dimensions")
        return (0, *range(2, ndim), 1)


contiguous_format, preserve_format = MemoryFormat.CONTIGUOUS, MemoryFormat.PRESERVE
channels_last, channels_last_3d = MemoryFormat.CHANNELS_LAST, MemoryFormat.CHANNELS_LAST_3D
