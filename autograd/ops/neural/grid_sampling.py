"""`grid_sample`: images read at positions that a grid gives, by the elements around each position; and `affine_grid`,
which makes such grids.

Composed of `gather` and products, so that gradients flow to images and to the grid. Resampling at even distances is in
`interpolation`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from raygrad.errors import AutogradError, ShapeError

from ...core import dtypes
from ...registry.define_op import like_operand, sizes_of, space_of
from ...registry.dtype_constraints import real_floats, takes
from ..elementwise.arithmetic import clamp
from ..elementwise.unary import abs, floor, round
from ..elementwise.where import keep, where
from ..indexing.gathering import gather
from ..layout.axis_order import to_dtype
from ..layout.shape import expand, reshape, transpose, unsqueeze
from ..linalg.matmul import matmul

PUBLIC = "affine_grid grid_sample".split()

_MODES = ("bilinear", "nearest", "bicubic")
_BORDERS = ("zeros", "border", "reflection")


def _unnormalised(at: Any, extent: int, corners: bool) -> Any:
    """Return positions among the elements for those from -1 to 1: of the outer elements, or of their outer edges."""
    return (at + 1) * ((extent - 1) / 2) if corners else ((at + 1) * extent - 1) / 2


def _within(at: Any, extent: int) -> Any:
    """Return positions moved to the nearest element inside; beyond, and at, the ends they have no gradient."""
    inside = (at > 0) & (at < extent - 1)
    fixed = clamp(at.detach(), 0, extent - 1) if hasattr(at, "detach") else clamp(at, 0, extent - 1)
    return where(inside, at, fixed)


def _reflected(at: Any, extent: int, corners: bool) -> Any:
    """Return positions mirrored at the outer elements, or at their outer edges, until they are inside."""
    low, high = (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)
    span = high - low
    if not span:
        return at * 0
    far = abs(at - low)
    turns = floor(far.detach() / span) if hasattr(far, "detach") else floor(far / span)
    rest = far - turns * span
    return where(turns % 2 == 0, rest + low, high - rest)


def _placed(at: Any, extent: int, border: str, corners: bool) -> Any:
    if border == "border":
        return _within(at, extent)
    if border == "reflection":
        return _within(_reflected(at, extent, corners), extent)
    return at


class _Reader:
    """Reads images, flattened, at whole positions."""

    def __init__(self, input: Any, border: str, corners: bool) -> None:
        self.extents = tuple(input.shape[2:])
        self.flat = reshape(input, (*input.shape[:2], math.prod(self.extents)))
        self.border, self.corners = border, corners

    def at(self, places: Sequence[Any]) -> Any:
        """Return the elements at places, one tensor (batch, points) for each dimension: (batch, channels, points)."""
        number: Any = 0
        inside: Any = None
        for place, extent in zip(places, self.extents, strict=True):
            place = _placed(place, extent, self.border, self.corners)
            here = (place >= 0) & (place <= extent - 1)
            inside = here if inside is None else inside & here
            number = number * extent + to_dtype(keep(place, here), dtypes.int64)
        shape = (*self.flat.shape[:2], number.shape[-1])
        return keep(gather(self.flat, 2, expand(unsqueeze(number, 1), shape)), unsqueeze(inside, 1))


def _cubic_weights(part: Any) -> list[Any]:
    """Return the weights of the four elements around a position, `part` behind the second."""
    slope = -0.75

    def inner(far: Any) -> Any:
        return ((slope + 2) * far - (slope + 3)) * far * far + 1

    def outer(far: Any) -> Any:
        return ((slope * far - 5 * slope) * far + 8 * slope) * far - 4 * slope

    return [outer(part + 1), inner(part), inner(1 - part), outer(2 - part)]


def _bicubic(reader: _Reader, positions: Sequence[Any]) -> Any:
    below = [floor(at.detach() if hasattr(at, "detach") else at) for at in positions]
    weights = [_cubic_weights(at - low) for at, low in zip(positions, below, strict=True)]
    out: Any = None
    for i, j in itertools.product(range(4), range(4)):
        read = reader.at([below[0] + (i - 1), below[1] + (j - 1)])
        term = read * unsqueeze(weights[0][i] * weights[1][j], 1)
        out = term if out is None else out + term
    return out


def _linear(reader: _Reader, positions: Sequence[Any]) -> Any:
    below = [floor(at.detach() if hasattr(at, "detach") else at) for at in positions]
    out: Any = None
    for corner in itertools.product((0, 1), repeat=len(positions)):
        weight: Any = None
        for at, low, side in zip(positions, below, corner, strict=True):
            part = at - low if side else low + 1 - at
            weight = part if weight is None else weight * part
        term = reader.at([low + side for low, side in zip(below, corner, strict=True)]) * unsqueeze(weight, 1)
        out = term if out is None else out + term
    return out


@takes(real_floats, 2)
def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """Return images read at positions, between elements interpolated.

    Args:
        input: (batch, channels, height, width), or of volumes (batch, channels, depth, height, width).
        grid: positions (batch, ..., 2), or of volumes (batch, ..., 3), from -1 to 1, the last dimension's first.
        mode: "bilinear" (of volumes trilinear), "nearest", or of images "bicubic".
        padding_mode: what is read outside: "zeros", the "border", or what is inside, mirrored ("reflection").
        align_corners: -1 and 1 are the middles of the outer elements, not their outer edges.

    Raises:
        ValueError: another mode or padding mode.
        RuntimeError: shapes that do not fit.
    """
    if mode not in _MODES:
        raise ValueError(f"grid_sample(): expected mode to be {', '.join(_MODES)}, but got: '{mode}'")
    if padding_mode not in _BORDERS:
        raise ValueError(f"grid_sample(): expected padding_mode to be {', '.join(_BORDERS)}, but got: '{padding_mode}'")
    dims = input.ndim - 2
    if dims not in (2, 3) or grid.ndim != input.ndim or grid.shape[-1] != dims or grid.shape[0] != input.shape[0]:
        raise ShapeError(
            f"grid_sample(): expected 4D or 5D input and grid with the same batch size and number of dimensions, but "
            f"got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.dtype != grid.dtype:
        raise AutogradError(
            f"grid_sample(): expected input and grid to have same dtype, got {input.dtype}, {grid.dtype}"
        )
    if 0 in input.shape[1:]:
        raise AutogradError(
            f"grid_sample(): expected input to have non-empty spatial dimensions, got {list(input.shape)}"
        )
    if mode == "bicubic" and dims != 2:
        raise AutogradError("grid_sample(): bicubic interpolation only supports 4D input")
    corners = bool(align_corners)
    points = tuple(grid.shape[1:-1])
    reader = _Reader(input, padding_mode, corners)
    positions = [
        _unnormalised(reshape(grid[..., dims - 1 - axis], (grid.shape[0], -1)), extent, corners)
        for axis, extent in enumerate(reader.extents)
    ]
    if mode == "bicubic":
        out = _bicubic(reader, positions)
    else:
        placed = [_placed(at, n, padding_mode, corners) for at, n in zip(positions, reader.extents, strict=True)]
        reader.border = "zeros"
        if mode == "nearest":
            out = reader.at([round(at) for at in placed])
        else:
            out = _linear(reader, placed)
    return reshape(out, (*input.shape[:2], *points))


@takes(real_floats)
def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """Return the positions that affine maps give the elements of images, for `grid_sample`.

    Args:
        theta: matrices of maps, (batch, 2, 3) for images and (batch, 3, 4) for volumes.
        size: of the images that are wanted: (batch, channels, height, width), or with depth before height.
        align_corners: -1 and 1 are the outer elements, not their outer edges; False by default.

    Raises:
        RuntimeError: `theta` does not fit the size, or that is not positive.
    """
    wanted = sizes_of((size,))
    dims = len(wanted) - 2
    if dims not in (2, 3) or any(n <= 0 for n in wanted):
        raise AutogradError(f"affine_grid: expected four or five positive sizes of images, got {list(wanted)}")
    if tuple(theta.shape) != (wanted[0], dims, dims + 1):
        raise ShapeError(
            f"Expected a batch of {dims}D affine matrices of shape {wanted[0]}x{dims}x{dims + 1} for size "
            f"{list(wanted)}. Got {list(theta.shape)}."
        )
    xp: Any = space_of(theta)
    ends = [(0.0 if n == 1 else 1.0) if align_corners else (n - 1) / n for n in wanted[2:]]
    axes = [xp.linspace(-end, end, n) for end, n in zip(ends, wanted[2:], strict=True)]
    places = [*xp.meshgrid(*axes, indexing="ij")[::-1], xp.ones(wanted[2:])]
    base = like_operand(xp.stack(places, -1).reshape(-1, dims + 1).astype(theta.dtype), theta)
    return reshape(matmul(base, transpose(theta, 1, 2)), (wanted[0], *wanted[2:], dims))
