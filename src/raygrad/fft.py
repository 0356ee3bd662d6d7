"""The functions of `torch.fft` that the catalogue has.

Rules of this file: names alone; the functions stand in `raygrad.autograd.ops`, whose table FFT says which.
"""

from typing import TYPE_CHECKING, Any

from raygrad.autograd import ops as _ops

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(_ops.offered(_ops.FFT, __name__))
__all__ = sorted(_ops.FFT)  # pyright: ignore[reportUnsupportedDunderAll]
