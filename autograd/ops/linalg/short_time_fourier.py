"""The short-time Fourier transform of signals, `stft`, and its inverse, `istft`.

Composed of the windows in `layout.windows` and of the transforms in `fft`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...registry.define_op import like_operand, real_of, space_of
from ...registry.dtype_constraints import floats_alone, takes
from ..elementwise.complex_numbers import imag, real
from ..layout.joining import narrow, stack
from ..layout.padding import pad
from ..layout.shape import reshape, transpose, unsqueeze
from ..layout.windows import windows, windows_together
from .fft import fft, ifft, irfft, rfft

PUBLIC = "istft stft".split()


def _window(name: str, window: Any, n_fft: int, win_length: int, like: Any) -> Any:
    """Return the window in the middle of `n_fft` elements; of ones if none is given."""
    if not 0 < win_length <= n_fft:
        raise AutogradError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={win_length}, n_fft={n_fft}")
    if window is None:
        ones: Any = space_of(like).ones((win_length,), real_of(like.dtype))
        window = like_operand(ones, like)
    elif tuple(window.shape) != (win_length,):
        raise ShapeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.shape)}"
        )
    left = (n_fft - win_length) // 2
    return pad(window, (left, n_fft - win_length - left)) if win_length < n_fft else window


def _hop(name: str, hop_length: int | None, n_fft: int) -> int:
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop <= 0:
        raise AutogradError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    return hop


@takes(floats_alone)
def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Any:
    """Return the Fourier transforms of overlapping parts of signals: (..., frequencies, parts).

    Args:
        input: signals (length) or (batch, length).
        n_fft: the length of a part.
        hop_length: how far parts are apart; a quarter of `n_fft` by default.
        win_length, window: what each part is multiplied by, in its middle: a vector of `win_length`; ones by default.
        center: let the middle of the first part be the first element, the signal padded on both sides by `pad_mode`.
        normalized: divide by the root of `n_fft`.
        onesided: return the half of the frequencies that tells all of a real signal; so by default where there is one.
        return_complex: has to be said for real signals; unless it is True, real and imaginary parts stand in a last
            dimension.

    Raises:
        RuntimeError: arguments that do not fit.
    """
    if input.ndim not in (1, 2):
        raise AutogradError(f"stft: expected a 1D or 2D tensor, but got {input.ndim}D")
    whole = input.dtype.kind == "c" or (window is not None and window.dtype.kind == "c")
    if return_complex is None:
        if not whole:
            raise AutogradError("stft requires the return_complex parameter be given for real inputs")
        return_complex = True
    if onesided and whole:
        raise AutogradError("Cannot have onesided output if window or input is complex")
    hop, length = _hop("stft", hop_length, n_fft), n_fft if win_length is None else win_length
    factor = _window("stft", window, n_fft, length, input)
    signals = input if input.ndim == 2 else unsqueeze(input, 0)
    if center:
        signals = pad(unsqueeze(signals, 1), (n_fft // 2, n_fft // 2), pad_mode)[:, 0]
    if not 0 < n_fft <= signals.shape[-1]:
        raise AutogradError(f"stft: expected 0 < n_fft <= {signals.shape[-1]}, but got n_fft={n_fft}")
    parts = windows(signals, (1,), (n_fft,), (hop,), (1,)) * factor
    norm = "ortho" if normalized else None
    half = not whole if onesided is None else onesided
    found = transpose(rfft(parts, norm=norm) if half else fft(parts, norm=norm), -2, -1)
    found = found if input.ndim == 2 else found[0]
    return found if return_complex else stack([real(found), imag(found)], -1)


@takes(floats_alone)
def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """Return the signals whose `stft` is nearest to `input`: overlapping parts added, and divided by the squares of the
    windows.

    Args:
        length: of the signals; what the parts reach by default.
        return_complex: the signals are complex.

    Raises:
        RuntimeError: arguments that do not fit, or windows that leave a part of the signals out.
    """
    if input.dtype.kind != "c":
        raise AutogradError("istft requires a complex-valued input tensor matching the output from stft")
    if input.ndim not in (2, 3) or not math.prod(input.shape):
        raise AutogradError(
            f"istft: expected a tensor with 2 or 3 dimensions and elements, but got {list(input.shape)}"
        )
    if window is not None and window.dtype.kind == "c" and not return_complex:
        raise AutogradError("istft: complex windows are incompatible with return_complex=False")
    half = (input.shape[-2] != n_fft) if onesided is None else onesided
    if half and return_complex:
        raise AutogradError("cannot have onesided output if window or input is complex")
    if input.shape[-2] != (n_fft // 2 + 1 if half else n_fft):
        raise AutogradError(f"istft: expected the frequencies of n_fft={n_fft}, but got {input.shape[-2]}")
    hop, extent = _hop("istft", hop_length, n_fft), n_fft if win_length is None else win_length
    real_like = real(input)
    factor = _window("istft", window, n_fft, extent, real_like)
    given = input if input.ndim == 3 else unsqueeze(input, 0)
    norm = "ortho" if normalized else None
    turned = transpose(given, -2, -1)
    if return_complex:
        parts = ifft(turned, norm=norm)
    else:  # as in PyTorch the half of the frequencies tells all of it, whatever the other half says
        parts = irfft(turned if half else turned[..., : n_fft // 2 + 1], n_fft, norm=norm)
    count = parts.shape[1]
    reach = n_fft + hop * (count - 1)
    summed = windows_together(parts * factor, (1,), (hop,), (1,), (parts.shape[0], reach))
    squares = reshape(factor * factor, (1, n_fft)) * like_operand(
        space_of(real_like).ones((count, 1), real_of(input.dtype)), real_like
    )
    total = windows_together(squares, (0,), (hop,), (1,), (reach,))
    start = n_fft // 2 if center else 0
    stop = reach - (n_fft // 2 if center else 0) if length is None else min(start + length, reach)
    summed, total = narrow(summed, 1, start, stop - start), narrow(total, 0, start, stop - start)
    _check_covered(total)
    out = summed / total
    if length is not None and length > stop - start:
        out = pad(out, (0, length - (stop - start)))
    return out if input.ndim == 3 else out[0]


def _check_covered(total: Any) -> None:
    """Raise if windows sum to nothing somewhere; pending sums of a session are not looked at."""
    data = getattr(total, "_data", total)
    if isinstance(data, np.ndarray) and np.abs(data).min() < 1e-11:
        raise AutogradError("istft: window overlap add min: 1: the windows leave a part of the signals out")
