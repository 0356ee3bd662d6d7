"""Histograms: histc, histogram, histogramdd. They carry no gradient.

Even bins span the extremes of the elements, unless their outer bounds are given. All shapes are known beforehand, so
that no session waits for them. The kernels are NumPy's, on the host alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from raygrad.errors import AutogradError

from ...dispatch.dispatch import call
from ...registry.define_op import define, quiet, space_of
from ...registry.dtype_constraints import real_floats, takes
from ..layout.shape import reshape

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


_EDGES = define(
    "bin_edges",
    ("a",),
    lambda a, bins, low, high: _even_edges(a, bins, low, high),
    lambda params, a: ((params[0] + 1,), a.dtype),
    host_only=True,
)


def _even_edges(a: Any, bins: int, low: float | None, high: float | None) -> Any:
    """Return the bounds of even bins: from one number to another, or of the extremes of the elements."""
    least, most = (float(a.min()), float(a.max())) if a.size else (0.0, 1.0)
    if low is not None and high is not None:
        least, most = low, high
    if least == most:
        least, most = least - 0.5, most + 0.5
    return np.linspace(least, most, bins + 1).astype(a.dtype)


def _count(points: Any, weight: Any, *edges_and_density: Any) -> Any:
    """Return the counts of points, one a row, in a grid of cells."""
    *edges, density = edges_and_density
    shape = tuple([len(edge) - 1 for edge in edges])
    inside = np.ones(len(points), bool)
    cells: list[Any] = []
    for axis, edge in enumerate(edges):
        column = points[:, axis]
        inside &= (column >= edge[0]) & (column <= edge[-1])
        place: Any = space_of(column).searchsorted(edge, column, "right")
        cells.append(np.minimum(place - 1, shape[axis] - 1))
    found = np.zeros(shape, points.dtype)
    np.add.at(found, tuple([cell[inside] for cell in cells]), 1 if weight is None else weight[inside])
    if density:
        found = found / found.sum()
        for axis, edge in enumerate(edges):
            found = found / np.diff(edge).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    return found.astype(points.dtype, copy=False)


def _count_infer(params: tuple[Any, ...], points: Any, weight: Any, *edges: Any) -> Any:
    return tuple([edge.shape[0] - 1 for edge in edges]), points.dtype


_COUNT = define(
    "bin_counts",
    ("points", "weight", "*edges"),
    quiet(_count),
    _count_infer,
    host_only=True,
)


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
    found, edges = _in_cells("histogram", reshape(input, (-1, 1)), [bins], range, weight, density)
    return Histogram(found, edges[0])


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
    if input.ndim < 2:
        raise AutogradError(f"torch.histogramdd: input tensor should have at least 2 dimensions, got {input.ndim}")
    coordinates = input.shape[-1]
    given: list[Any] = list(cast("Sequence[Any]", bins)) if isinstance(bins, Sequence) else [bins] * coordinates
    if len(given) != coordinates:
        raise AutogradError(
            f"torch.histogramdd: The size of bins must be equal to the innermost dimension of the input, got "
            f"{len(given)} for {coordinates}"
        )
    return Histogram(*_in_cells("histogramdd", reshape(input, (-1, coordinates)), given, range, weight, density))


def _in_cells(
    name: str, points: Any, bins: Sequence[Any], outer: Sequence[float] | None, weight: Any, density: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Return the counts of points, one a row, in a grid, and the bounds of its cells along each coordinate."""
    if outer is not None and len(outer) != 2 * len(bins):
        raise AutogradError(f"torch.{name}: range should have {2 * len(bins)} elements, but got {len(outer)}")
    points = points.detach() if hasattr(points, "detach") else points
    edges: list[Any] = []
    for axis, one in enumerate(bins):
        if hasattr(one, "shape"):
            edges.append(one)
            continue
        if one <= 0:
            raise AutogradError(f"torch.{name}: bins must be > 0, but got {one}")
        low, high = (None, None) if outer is None else (float(outer[2 * axis]), float(outer[2 * axis + 1]))
        edges.append(call(_EDGES, (points[:, axis],), (int(one), low, high)))
    if weight is not None:
        weight = reshape(weight.detach() if hasattr(weight, "detach") else weight, (-1,))
        if weight.shape[0] != points.shape[0]:
            raise AutogradError(
                f"torch.{name}: if weight tensor is provided it should have one element for each point, got "
                f"{weight.shape[0]} for {points.shape[0]}"
            )
    return call(_COUNT, (points, weight, *edges), (bool(density),)), tuple(edges)
