"""Windows of signal processing: hann_window, hamming_window, blackman_window, bartlett_window, kaiser_window.

They are computed in double precision and then converted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from raygrad.errors import AutogradError

from ..tensor.tensor import Tensor
from .creation import float_dtype, made_leaf
from .operand_errors import wrong_argument


def _window(
    name: str,
    window_length: Any,
    periodic: bool,
    at: Callable[[Any, Any], Any],
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """Return a window by its function of a namespace and of positions from 0 to 1; of a periodic one the last position
    is left out.

    Raises:
        TypeError: the length is no integer.
        RuntimeError: it is negative, or the dtype not floating.
    """
    if isinstance(window_length, bool) or not isinstance(window_length, int | np.integer):
        raise wrong_argument(name, "window_length", 1, "int", cast("type[Any]", type(window_length)).__name__)
    length = int(cast("Any", window_length))
    if length < 0:
        raise AutogradError(f"{name} requires non-negative window_length, got window_length={length}")
    wanted = float_dtype(dtype)
    if wanted.kind != "f":
        raise AutogradError(f"{name} expects floating point dtypes, got: {wanted}")

    def made(xp: Any) -> Any:
        if length <= 1:
            return xp.ones(length, wanted)
        steps = length if periodic else length - 1
        return at(xp, xp.arange(length) / steps).astype(wanted)

    return made_leaf(device, made, requires_grad)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the Hann window, a raised cosine that ends in zeros: of one period, or (not `periodic`) symmetric."""
    return _window(
        "hann_window",
        window_length,
        periodic,
        lambda xp, x: 0.5 - 0.5 * xp.cos(2 * math.pi * x),
        dtype,
        device,
        requires_grad,
    )


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the Hamming window `alpha - beta * cos(2 pi x)`: of one period, or (not `periodic`) symmetric."""
    return _window(
        "hamming_window",
        window_length,
        periodic,
        lambda xp, x: alpha - beta * xp.cos(2 * math.pi * x),
        dtype,
        device,
        requires_grad,
    )


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the Blackman window, of two cosines: of one period, or (not `periodic`) symmetric."""
    return _window(
        "blackman_window",
        window_length,
        periodic,
        lambda xp, x: 0.42 - 0.5 * xp.cos(2 * math.pi * x) + 0.08 * xp.cos(4 * math.pi * x),
        dtype,
        device,
        requires_grad,
    )


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the Bartlett window, a triangle: of one period, or (not `periodic`) symmetric."""
    return _window(
        "bartlett_window",
        window_length,
        periodic,
        lambda xp, x: 1 - xp.abs(2 * x - 1),
        dtype,
        device,
        requires_grad,
    )


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the Kaiser window of the shape `beta`: of one period, or (not `periodic`) symmetric."""
    return _window(
        "kaiser_window",
        window_length,
        periodic,
        lambda xp, x: xp.i0(beta * xp.sqrt(xp.maximum(1 - (2 * x - 1) ** 2, 0))) / xp.i0(xp.asarray(beta)),
        dtype,
        device,
        requires_grad,
    )
