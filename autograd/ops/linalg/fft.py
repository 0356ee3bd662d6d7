"""Fourier transforms: the functions of `raygrad.fft`, on three ops with derivatives.

The ops work over several axes: complex to complex, real to half of a symmetric spectrum, and back. Each is linear, and
the adjoint of each is one of them. The result has the precision of the operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...core import dtypes
from ...core.array_layout import as_dense
from ...devices.serving import factory_device
from ...dispatch.device_dispatch import made_on
from ...dispatch.dispatch import call
from ...registry.define_op import Shape, axis_of, conj, contiguous, define, like_operand, real_of, space_of
from ...tensor.tensor import Tensor
from ..indexing.indexing import zeros_around
from ..layout.axis_order import to_dtype
from ..layout.joining import narrow
from ..layout.shape import roll

PUBLIC = """
    fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft irfft2 irfftn
    rfft rfft2 rfftfreq rfftn
""".split()

_NORMS = ("backward", "ortho", "forward")
_fft: Any = np.fft

Axes = Sequence[int] | None


def complex_of(dtype: Any) -> Any:
    """Return the complex dtype of the precision of `dtype`."""
    return dtype if dtype.kind == "c" else np.dtype(f"c{2 * dtype.itemsize}")


# ---- complex to complex ----------------------------------------------------------------------------------------------


def _c2c(a: Any, axes: Shape, inverse: bool, norm: str) -> Any:
    out = (_fft.ifftn if inverse else _fft.fftn)(as_dense(a), axes=axes, norm=norm)
    return contiguous(out.astype(complex_of(a.dtype), copy=False))


_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""The adjoint of a transform is the inverse one, with the factor on the other side."""


def _c2c_backward(ctx: Any, g: Any) -> Any:
    axes, inverse, norm = ctx.params
    return call(_C2C, (g,), (axes, not inverse, _OTHER[norm]))


_C2C = define("fft_c2c", ("a",), _c2c, lambda params, a: (a.shape, complex_of(a.dtype)), _c2c_backward, saves="none")

# ---- real to complex, and back ---------------------------------------------------------------------------------------


def _r2c(a: Any, axis: int, norm: str) -> Any:
    out = _fft.rfft(as_dense(a), axis=axis, norm=norm)
    return contiguous(out.astype(complex_of(a.dtype), copy=False))


def _r2c_infer(params: tuple[Any, ...], a: Any) -> Any:
    axis, _ = params
    return (*a.shape[:axis], a.shape[axis] // 2 + 1, *a.shape[axis + 1 :]), complex_of(a.dtype)


def _r2c_backward(ctx: Any, g: Any) -> Any:
    """The real part of the inverse sum over the half that the gradient has, the other half being zero."""
    axis, norm = ctx.params
    shape = ctx.inputs[0][0]
    if g.shape[axis] != shape[axis]:
        g = zeros_around(g, tuple([(0, extent, 1) for extent in g.shape]), shape)
    return call(_C2C, (g,), ((axis,), True, _OTHER[norm])).real


def _c2r(a: Any, axis: int, extent: int, norm: str) -> Any:
    out = _fft.irfft(as_dense(a), extent, axis=axis, norm=norm)
    return contiguous(out.astype(real_of(a.dtype), copy=False))


def _c2r_infer(params: tuple[Any, ...], a: Any) -> Any:
    axis, extent, _ = params
    return (*a.shape[:axis], extent, *a.shape[axis + 1 :]), real_of(a.dtype)


def _c2r_backward(ctx: Any, g: Any) -> Any:
    """The transform of the gradient, twice where an element stands for its mirror image too."""
    axis, extent, norm = ctx.params
    out = call(_R2C, (g,), (axis, _OTHER[norm]))
    half = out.shape[axis]
    weights: Any = space_of(out).full(half, 2.0, real_of(out.dtype))
    weights[0] = 1
    if extent % 2 == 0:
        weights[-1] = 1
    weights = weights.reshape([-1 if i == axis else 1 for i in range(len(out.shape))])
    return out * (like_operand(weights, out))


_R2C = define("fft_r2c", ("a",), _r2c, _r2c_infer, _r2c_backward, saves="none")
_C2R = define("fft_c2r", ("a",), _c2r, _c2r_infer, _c2r_backward, saves="none")

# ---- arguments -------------------------------------------------------------------------------------------------------


def _norm(norm: str | None) -> str:
    if norm is not None and norm not in _NORMS:
        raise AutogradError(f"Invalid normalization mode: '{norm}'; known: {', '.join(_NORMS)}")
    return norm or "backward"


def _fitted(input: Any, axis: int, extent: int | None) -> Any:
    """Return `input` cut, or filled up with zeros at the end, to `extent` elements along an axis."""
    if extent is None or extent == input.shape[axis]:
        return input
    if extent < 1:
        raise AutogradError(f"Invalid number of data points ({extent}) specified")
    if extent < input.shape[axis]:
        return narrow(input, axis, 0, extent)
    shape = tuple(input.shape)
    return zeros_around(input, tuple([(0, n, 1) for n in shape]), (*shape[:axis], extent, *shape[axis + 1 :]))


def _floating(input: Any) -> Any:
    return input if input.dtype.kind in "fc" else to_dtype(input, dtypes.get_default_dtype())


def _axes(input: Any, s: Sequence[int] | None, dim: Axes) -> tuple[list[int], list[int | None]]:
    """Return the axes of a transform over several, and the extents wanted along them."""
    if dim is None:
        count = input.ndim if s is None else len(s)
        axes = list(range(input.ndim - count, input.ndim))
    else:
        axes = [axis_of(d, input.ndim) for d in ([dim] if isinstance(dim, int) else dim)]
    if len(set(axes)) != len(axes):
        raise AutogradError("FFT dims must be unique")
    wanted: list[int | None] = [None] * len(axes) if s is None else [None if n == -1 else n for n in s]
    if len(wanted) != len(axes):
        raise ShapeError(f"When given, dim and shape arguments must have the same length: {len(axes)}, {len(wanted)}")
    return axes, wanted


def _complex(input: Any) -> Any:
    input = _floating(input)
    return input if input.dtype.kind == "c" else to_dtype(input, complex_of(input.dtype))


def _real(name: str, input: Any) -> Any:
    if input.dtype.kind == "c":
        raise AutogradError(f"{name} expects a real input tensor, but got {input.dtype}")
    return _floating(input)


# ---- one dimension ---------------------------------------------------------------------------------------------------


def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the discrete Fourier transform along `dim`, cut or filled up with zeros to `n` elements.

    Args:
        norm: which way the factor `1 / n` goes: "backward" (the inverse), "forward", or "ortho", its root both ways.
    """
    return fftn(input, None if n is None else (n,), (dim,), norm)


def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the inverse of `fft`."""
    return ifftn(input, None if n is None else (n,), (dim,), norm)


def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the first half of the transform of real numbers; the other is its mirror image."""
    axis = axis_of(dim, input.ndim)
    return call(_R2C, (_fitted(_real("rfft", input), axis, n),), (axis, _norm(norm)))


def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the `n` real numbers (an even number by default) whose `rfft` is `input`."""
    input = _complex(input)
    axis = axis_of(dim, input.ndim)
    extent = 2 * (input.shape[axis] - 1) if n is None else n
    if extent < 1:
        raise AutogradError(f"Invalid number of data points ({extent}) specified")
    return call(_C2R, (_fitted(input, axis, extent // 2 + 1),), (axis, extent, _norm(norm)))


def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the real transform of a symmetric signal, of which `input` is the first half."""
    return irfft(conj(_complex(input)), n, dim, _OTHER[_norm(norm)])


def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the inverse of `hfft`."""
    return conj(rfft(_real("ihfft", input), n, dim, _OTHER[_norm(norm)]))


# ---- several dimensions ----------------------------------------------------------------------------------------------


def _transformed(input: Any, s: Sequence[int] | None, dim: Axes, norm: str | None, inverse: bool) -> Any:
    input = _complex(input)
    axes, wanted = _axes(input, s, dim)
    for axis, extent in zip(axes, wanted, strict=True):
        input = _fitted(input, axis, extent)
    return call(_C2C, (input,), (tuple(axes), inverse, _norm(norm)))


def fftn(input: Any, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None) -> Any:
    """Return the discrete Fourier transform along several dimensions, all by default."""
    return _transformed(input, s, dim, norm, False)


def ifftn(input: Any, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None) -> Any:
    """Return the inverse of `fftn`."""
    return _transformed(input, s, dim, norm, True)


def rfftn(input: Any, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None) -> Any:
    """Return half of the transform of real numbers along several dimensions: the last of them is halved."""
    axes, wanted = _axes(input, s, dim)
    halved = rfft(input, wanted[-1], axes[-1], norm)
    return fftn(halved, [-1 if n is None else n for n in wanted[:-1]], axes[:-1], norm) if axes[:-1] else halved


def irfftn(input: Any, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None) -> Any:
    """Return the inverse of `rfftn`."""
    axes, wanted = _axes(input, s, dim)
    if axes[:-1]:
        input = ifftn(input, [-1 if n is None else n for n in wanted[:-1]], axes[:-1], norm)
    return irfft(input, wanted[-1], axes[-1], norm)


def fft2(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return `fftn` along two dimensions."""
    return fftn(input, s, dim, norm)


def ifft2(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return `ifftn` along two dimensions."""
    return ifftn(input, s, dim, norm)


def rfft2(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return `rfftn` along two dimensions."""
    return rfftn(input, s, dim, norm)


def irfft2(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return `irfftn` along two dimensions."""
    return irfftn(input, s, dim, norm)


def hfftn(input: Any, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None) -> Any:
    """Return the real transform of a signal that is symmetric in the last dimension, of which `input` is half."""
    return irfftn(conj(_complex(input)), s, dim, _OTHER[_norm(norm)])


def ihfftn(input: Any, s: Sequence[int] | None = None, dim: Axes = None, norm: str | None = None) -> Any:
    """Return the inverse of `hfftn`."""
    return conj(rfftn(_real("ihfftn", input), s, dim, _OTHER[_norm(norm)]))


def hfft2(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return `hfftn` along two dimensions."""
    return hfftn(input, s, dim, norm)


def ihfft2(input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """Return `ihfftn` along two dimensions."""
    return ihfftn(_real("ihfft2", input), s, dim, norm)


# ---- order and frequencies -------------------------------------------------------------------------------------------


def _shifted(input: Any, dim: Any, sign: int) -> Any:
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [axis_of(d, input.ndim) for d in dims]
    return roll(input, [sign * (input.shape[axis] // 2) for axis in axes], axes) if axes else input


def fftshift(input: Any, dim: Any = None) -> Any:
    """Return `input` with the frequency zero in the middle."""
    return _shifted(input, dim, 1)


def ifftshift(input: Any, dim: Any = None) -> Any:
    """Return the inverse of `fftshift`."""
    return _shifted(input, dim, -1)


def _made(name: str, n: int, d: float, dtype: Any, device: Any, requires_grad: bool) -> Any:
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    out = Tensor.made(made_on(factory_device(device), lambda xp: getattr(xp.fft, name)(n, d).astype(wanted)))
    return out.requires_grad_() if requires_grad else out


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Return the frequencies of `fft`, for samples `d` apart."""
    return _made("fftfreq", n, d, dtype, device, requires_grad)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Return the frequencies of `rfft`, for samples `d` apart."""
    return _made("rfftfreq", n, d, dtype, device, requires_grad)
