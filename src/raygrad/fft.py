"""The public module `raygrad.fft`: the functions of `torch.fft`.

A list of names; the functions are in `raygrad.autograd.ops`, whose table FFT lists them.
"""

from typing import TYPE_CHECKING

from raygrad.autograd import ops as _ops

if TYPE_CHECKING:
    from raygrad.stubs.fft import *  # noqa: F403 (generated; the star makes the names public to type checkers)


globals().update(_ops.offered(_ops.FFT, __name__))
__all__ = sorted(_ops.FFT)  # pyright: ignore[reportUnsupportedDunderAll]
