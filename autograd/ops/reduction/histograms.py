"""Histograms: histc, histogram, histogramdd. They carry no gradient.

The bounds of the bins follow from values unless they are given. So `histogram` and `histogramdd` wait for a pending
value in a session; `histc`, whose result has a known shape, does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError

from ...dispatch.dispatch import call
from ...registry.define_op import define, like_operand
from ...registry.dtype_constraints import real_floats, takes

PUBLIC = "histc histogram histogramdd".split()


def _histc(a: Any, bins: int, least: float, most: float) -> Any:
    low, high = least, most
    if low == high and a.size:
        low, high = float(a.min()), float(a.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high)):
        raise AutogradError(f"histc: range of [{low}, {high}] is not finite")
    inside = a[(a >= low) & (a <= high)].astype(np.float64)
    places = np.minimum(((inside - low) / (high - low) * bins).astype(np.int64), bins - 1)
    return np.bincount(places, minlength=bins).astype(a.dtype)


_HISTC = define(
    "histc",
    ("a",),
    _histc,
    lambda params, a: ((params[0],), a.dtype),
    admits=real_floats,
    host_only=True,
)


@takes(real_floats)
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Return how many elements are in each of `bins` even parts of [min, max]; the extremes of the elements stand for
    two equal bounds. What is outside does not count.

    Raises:
        RuntimeError: `bins` is not positive, `max` is below `min`, or a bound is not finite.
    """
    if bins <= 0:
        raise AutogradError("torch.histc: bins must be > 0")
    if max < min:
        raise AutogradError("torch.histc: max must be larger than min")
    return call(_HISTC, (input.detach() if hasattr(input, "detach") else input,), (int(bins), float(min), float(max)))


class Histogram(NamedTuple):
    """What `histogram` and `histogramdd` return."""

    hist: Any
    bin_edges: Any


@takes(real_floats)
def histogram(
    input: Any, bins: Any, *, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> Histogram:
    """Return how many elements are in each bin, and the bounds of the bins.

    Args:
        bins: their number, or a vector of their bounds.
        range: the outer bounds, if a number of bins is given; the extremes of the elements by default.
        weight: what each element counts; 1 by default.
        density: divide by the total and the width of each bin.

    Raises:
        RuntimeError: bounds or weights that do not fit.
    """
    values = _at_hand(input).reshape(-1)
    found, edges = _counts(values[:, None], [bins], range, weight, density, input.dtype)
    return Histogram(like_operand(found, input), like_operand(edges[0], input))


@takes(real_floats)
def histogramdd(
    input: Any, bins: Any, *, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> Histogram:
    """Return how many of the points along the last dimension are in each cell of a grid, and the bounds of its cells;
    see `histogram`.

    Args:
        bins: one number, or one for each coordinate, or a list of vectors of bounds.
        range: lower and upper bounds of each coordinate, one after the other.
    """
    values = _at_hand(input)
    coordinates = values.shape[-1]
    given: list[Any] = list(bins) if isinstance(bins, Sequence) else [bins] * coordinates
    if len(given) != coordinates:
        raise AutogradError(
            f"torch.histogramdd: The size of bins must be equal to the innermost dimension of the input, got "
            f"{len(given)} for {coordinates}"
        )
    found, edges = _counts(values.reshape(-1, coordinates), given, range, weight, density, input.dtype)
    return Histogram(like_operand(found, input), tuple([like_operand(edge, input) for edge in edges]))


def _at_hand(tensor: Any) -> Any:
    return tensor.detach().numpy() if hasattr(tensor, "detach") else np.asarray(tensor)


def _counts(
    points: Any, bins: Sequence[Any], outer: Sequence[float] | None, weight: Any, density: bool, dtype: Any
) -> tuple[Any, list[Any]]:
    """Return the counts of points, one a row, in a grid, and the bounds of its cells along each coordinate."""
    if outer is not None and len(outer) != 2 * len(bins):
        raise AutogradError(f"torch.histogram: range should have {2 * len(bins)} elements, but got {len(outer)}")
    edges: list[Any] = []
    for axis, one in enumerate(bins):
        if hasattr(one, "shape"):
            edges.append(_at_hand(one).astype(dtype))
            continue
        if outer is not None:
            low, high = outer[2 * axis : 2 * axis + 2]
        else:
            column = points[:, axis]
            low, high = (column.min(), column.max()) if column.size else (0.0, 1.0)
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges.append(np.linspace(low, high, int(one) + 1).astype(dtype))
    weights = None if weight is None else _at_hand(weight).reshape(-1)
    if weights is not None and weights.size != len(points):
        raise AutogradError(
            f"torch.histogram: if weight tensor is provided it should have one element for each point, got "
            f"{weights.size} for {len(points)}"
        )
    shape = tuple([len(edge) - 1 for edge in edges])
    inside = np.ones(len(points), bool)
    cells: list[Any] = []
    for axis, edge in enumerate(edges):
        column = points[:, axis]
        inside &= (column >= edge[0]) & (column <= edge[-1])
        cells.append(np.minimum(np.searchsorted(edge, column, "right") - 1, shape[axis] - 1))
    found = np.zeros(shape, dtype)
    np.add.at(found, tuple([cell[inside] for cell in cells]), 1 if weights is None else weights[inside])
    if density:
        found = found / found.sum()
        for axis, edge in enumerate(edges):
            found = found / np.diff(edge).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    return found.astype(dtype), edges
