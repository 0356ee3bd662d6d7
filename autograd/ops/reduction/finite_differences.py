"""Derivatives of sampled functions: `gradient`, by central differences, as NumPy's.

Composed of `narrow` and sums. `diff` is in `scans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from raygrad.errors import AutogradError

from ...core.dtypes import get_default_dtype
from ...registry.define_op import axis_of
from ..layout.axis_order import to_dtype
from ..layout.joining import cat, narrow
from ..layout.shape import reshape

PUBLIC = ["gradient"]


def _along(widths: Any, axis: int, ndim: int) -> Any:
    """Return a vector as it broadcasts along `axis`."""
    return reshape(widths, [-1 if d == axis else 1 for d in range(ndim)])


def _even(input: Any, axis: int, width: Any, order: int) -> list[Any]:
    """Return the derivatives at the first point, within, and at the last, of points a constant width apart."""
    n = input.shape[axis]

    def at(place: int, count: int = 1) -> Any:
        return narrow(input, axis, place, count)

    inner = (at(2, n - 2) - at(0, n - 2)) / (2.0 * width)
    if order == 1:
        return [(at(1) - at(0)) / width, inner, (at(n - 1) - at(n - 2)) / width]
    first = (-1.5 * at(0) + 2.0 * at(1) - 0.5 * at(2)) / width
    last = (1.5 * at(n - 1) - 2.0 * at(n - 2) + 0.5 * at(n - 3)) / width
    return [first, inner, last]


def _uneven(input: Any, axis: int, points: Any, order: int) -> list[Any]:
    """Return the same of points at given coordinates."""
    n, ndim = input.shape[axis], input.ndim
    widths = points[1:] - points[:-1]

    def at(place: int, count: int = 1) -> Any:
        return narrow(input, axis, place, count)

    def of(value: Any) -> Any:
        return _along(value, axis, ndim)

    a, b = widths[:-1], widths[1:]
    both = a + b
    inner = (
        of(-b / (a * both)) * at(0, n - 2) + of((b - a) / (a * b)) * at(1, n - 2) + of(a / (b * both)) * at(2, n - 2)
    )
    if order == 1:
        return [(at(1) - at(0)) / of(widths[:1]), inner, (at(n - 1) - at(n - 2)) / of(widths[-1:])]
    a, b = widths[:1], widths[1:2]
    both = a + b
    first = of(-(2.0 * a + b) / (a * both)) * at(0) + of(both / (a * b)) * at(1) - of(a / (b * both)) * at(2)
    a, b = widths[-2:-1], widths[-1:]
    both = a + b
    last = of(b / (a * both)) * at(n - 3) - of(both / (a * b)) * at(n - 2)
    return [first, inner, last + of((2.0 * b + a) / (b * both)) * at(n - 1)]


def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Any, ...]:
    """Return the derivatives along dimensions of a function that `input` has the values of, by central differences.

    Args:
        spacing: how far points are apart: a number; or one number, or a vector of coordinates, for each dimension.
        dim: the dimensions; all by default.
        edge_order: 1 or 2: how precise the derivatives at the ends are.

    Raises:
        RuntimeError: another order, fewer points than it needs, or spacings that do not fit.
    """
    given: Any = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    axes = [axis_of(d, input.ndim) for d in given]
    if edge_order not in (1, 2):
        raise AutogradError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if len(set(axes)) != len(axes):
        raise AutogradError("dim appears multiple times in the list of dims")
    alone = not isinstance(spacing, list | tuple)
    spacing = 1 if spacing is None else spacing
    widths = [spacing] * len(axes) if alone else list(cast("Sequence[Any]", spacing))
    if len(widths) != len(axes):
        raise AutogradError(
            f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length {len(axes)}, but got "
            f"{len(widths)}"
        )
    if input.dtype.kind in "iu":
        input = to_dtype(input, get_default_dtype())
    found: list[Any] = []
    for axis, width in zip(axes, widths, strict=True):
        extent = input.shape[axis]
        if extent <= edge_order:
            raise AutogradError("torch.gradient expected each dimension size to be at least edge_order+1")
        if getattr(width, "ndim", 0):
            if tuple(width.shape) != (extent,):
                raise AutogradError(
                    f"torch.gradient expected {extent} coordinates along dimension {axis}, got {list(width.shape)}"
                )
            parts = _uneven(input, axis, width, edge_order)
        else:
            parts = _even(input, axis, width, edge_order)
        found.append(cat(parts, axis))
    return tuple(found)
