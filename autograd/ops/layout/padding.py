"""`pad`: constant, reflected, replicated and circular padding of tensors.

Composed of other ops. Convolutions and pooling pad their own inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...registry.define_op import like_operand, space_of, xp
from ...registry.dtype_constraints import no_bools
from ..indexing.gathering import index_select
from ..indexing.indexing import put_region, zeros_around

PUBLIC = ["pad"]

_MODES = ("constant", "reflect", "replicate", "circular")


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Return `input` with a border: (left, right) of the last dimension, then of the one before, and on.

    Args:
        pad: how many elements; negative ones are taken away.
        mode: "constant", a border of `value`; "reflect", of what is inside the edge, mirrored; "replicate", of the
            edge; "circular", of the other side.

    Raises:
        NotImplementedError: another mode.
        RuntimeError: a border that does not fit.
    """
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}; known: {', '.join(_MODES)}")
    if mode == "constant":
        return _constant(input, pad, value)
    if mode != "circular":
        no_bools(f"{mode} padding", (input,), input.dtype)
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise AutogradError(f"Padding length must be even and at most twice the dimensions, got {len(pad)}")
    for number in range(len(pad) // 2):
        low, high = pad[2 * number], pad[2 * number + 1]
        axis = input.ndim - 1 - number
        extent = input.shape[axis]
        most = extent - 1 if mode == "reflect" else extent if mode == "circular" else None
        if most is not None and max(low, high) > most:
            raise AutogradError(
                f"Padding size should be less than the corresponding input dimension: {mode} padding ({low}, {high}) "
                f"at dimension {axis} of input {list(input.shape)}"
            )
        places = space_of(input).arange(-low, extent + high)
        if mode == "reflect":
            places = xp.abs(places)
            places = xp.where(places >= extent, 2 * (extent - 1) - places, places)
        elif mode == "replicate":
            places = np.clip(places, 0, extent - 1)
        else:  # what is taken away is gone before the rest goes round
            inner = space_of(input).arange(max(-low, 0), extent - max(-high, 0))
            places = inner[space_of(input).arange(-max(low, 0), len(inner) + max(high, 0)) % len(inner)]
        input = index_select(input, axis, like_operand(places, input))
    return input


def constant_pad_nd(input: Any, pad: Sequence[int], value: float = 0) -> Any:
    """Return `input` with a border of `value`; see `pad`."""
    return _constant(input, pad, value)


def _constant(input: Any, pad: Sequence[int], value: float | None) -> Any:
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise AutogradError(f"Padding length must be even and at most twice the dimensions, got {len(pad)}")
    widths = [(0, 0)] * (input.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    if any(n < 0 for pair in widths for n in pair):
        inner = tuple(
            [
                slice(max(-low, 0), extent - max(-high, 0))
                for (low, high), extent in zip(widths, input.shape, strict=True)
            ]
        )
        input = input[inner]
        widths = [(max(low, 0), max(high, 0)) for low, high in widths]
    shape = tuple([low + extent + high for (low, high), extent in zip(widths, input.shape, strict=True)])
    place = tuple([(low, low + extent, 1) for (low, _), extent in zip(widths, input.shape, strict=True)])
    if not value:
        return zeros_around(input, place, shape)
    border = space_of(input).full(shape, value, input.dtype)
    return put_region(like_operand(border, input), input, place)
