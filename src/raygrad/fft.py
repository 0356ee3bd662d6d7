"""The public module `raygrad.fft`: the functions of `torch.fft`.

A list of names; the functions are in `raygrad.autograd.ops`, whose table FFT lists them.
"""

from typing import TYPE_CHECKING, Any

from raygrad.autograd import ops as _ops

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(_ops.offered(_ops.FFT, __name__))
__all__ = sorted(_ops.FFT)  # pyright: ignore[reportUnsupportedDunderAll]
