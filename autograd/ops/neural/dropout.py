"""Dropout: dropout of elements, dropout1d to dropout3d of whole channels, alpha_dropout, feature_alpha_dropout.

Masks are drawn here, as operands of the graph: a cached plan gets new ones each time (H9).
"""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.operand_errors import check_operand
from ...dispatch.random_numbers import rand
from ...registry.dtype_constraints import real_floats
from ..elementwise.where import keep, where
from ..layout.shape import reshape
from .in_place_forms import may_be_in_place

PUBLIC = "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout".split()


@may_be_in_place
def dropout(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Return `input` with elements made zero with probability `p`, the others scaled up by as much; while training."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    real_floats("dropout", (input,), input.dtype)
    return keep(input, _dropout_mask(input.shape, p, input.device)) * (1 / (1 - p) if p < 1 else 0.0)


def _dropout_mask(shape: Any, p: float, device: Any) -> Any:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return rand(shape, device=device) >= p


def _feature_dropout(input: Any, p: float, training: bool, dims: int) -> Any:
    """Drop whole channels."""
    if not training or p == 0:
        return input
    real_floats("dropout", (input,), input.dtype)
    lead = input.shape[: input.ndim - dims]
    kept = reshape(_dropout_mask(lead, p, input.device), (*lead, *(1,) * dims))
    return where(kept, input * (1 / (1 - p) if p < 1 else 0.0), 0.0)


@may_be_in_place
def dropout1d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Return `input` with whole channels (batch, channels, length) dropped at random; see `dropout`."""
    return _feature_dropout(input, p, training, 1)


@may_be_in_place
def dropout2d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Return `input` with whole channels (batch, channels, height, width) dropped at random; see `dropout`."""
    return _feature_dropout(input, p, training, 2)


@may_be_in_place
def dropout3d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Return `input` with whole channels of three dimensions dropped at random; see `dropout`."""
    return _feature_dropout(input, p, training, 3)


_SATURATION = -1.7580993408473766
"""The limit of `selu` at minus infinity, the value of elements that `alpha_dropout` drops."""


def _alpha(input: Any, kept: Any, p: float) -> Any:
    if p == 1:
        return input * 0
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SATURATION * _SATURATION))
    return where(kept, input, _SATURATION) * scale - scale * p * _SATURATION


@may_be_in_place
def alpha_dropout(input: Any, p: float = 0.5, training: bool = False) -> Any:
    """Return `input` with elements dropped at random so that means of 0 and variances of 1 are kept."""
    check_operand("alpha_dropout", input)
    if not training or p == 0:
        return input
    real_floats("alpha_dropout", (input,), input.dtype)
    return _alpha(input, _dropout_mask(input.shape, p, input.device), p)


@may_be_in_place
def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False) -> Any:
    """Return `alpha_dropout` of whole channels."""
    check_operand("feature_alpha_dropout", input)
    if not training or p == 0:
        return input
    real_floats("feature_alpha_dropout", (input,), input.dtype)
    lead = input.shape[:2]
    return _alpha(input, reshape(_dropout_mask(lead, p, input.device), (*lead, *(1,) * (input.ndim - 2))), p)
