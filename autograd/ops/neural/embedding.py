"""`embedding`, scaled dot-product attention, pixel and channel shuffles, composed of other ops.

Linear maps with a bias are in `linear`, dropout is in `dropout`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...dispatch.shape_errors import check_positive
from ...registry.define_op import like_operand, space_of
from ..elementwise.arithmetic import add
from ..elementwise.where import where
from ..indexing.indexing import getitem
from ..layout.shape import permute, reshape, transpose, unsqueeze
from ..linalg.matmul import matmul
from .activations import softmax
from .dropout import dropout

PUBLIC = "channel_shuffle embedding pixel_shuffle pixel_unshuffle scaled_dot_product_attention".split()


def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """Return the rows of `weight` that the integers `input` name; that of `padding_idx` gets no gradient."""
    if input.dtype.kind not in "iu":
        raise AutogradError(f"Expected tensor for argument #1 'indices' to have integers, but got {input.dtype}")
    if weight.ndim != 2:
        raise ShapeError(f"embedding: 'weight' must be 2-D, but got one with shape {list(weight.shape)}")
    rows = getitem(weight, input)
    if padding_idx is None:
        return rows
    number = padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx
    return where(unsqueeze(input == number, -1), rows.detach(), rows)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Return the means of `value` weighted by the softmax of the products of `query` and `key`.

    Args:
        attn_mask: bools, where a key counts; or numbers added to the products.
        is_causal: let a query see only keys up to its own place.
        scale: what multiplies the products; the inverse root of the last extent by default.
    """
    products = matmul(query, transpose(key, -2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        if attn_mask is not None:
            raise AutogradError(
                "scaled_dot_product_attention: explicit attn_mask should not be set when is_causal=True"
            )
        attn_mask = like_operand(np.tril(space_of(products).ones((query.shape[-2], key.shape[-2]), bool)), products)
    if attn_mask is not None:
        products = where(attn_mask, products, -math.inf) if attn_mask.dtype.kind == "b" else add(products, attn_mask)
    return matmul(dropout(softmax(products, -1), dropout_p), value)


# ---- images ----------------------------------------------------------------------------------------------------------


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Return images (..., channels, height, width) with channels spread over pixels: `upscale_factor` times larger."""
    *batch, channels, height, width = input.shape
    check_positive("pixel_shuffle", "upscale_factor", (upscale_factor,))
    r, n = upscale_factor, len(batch)
    if channels % (r * r):
        raise AutogradError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    split = reshape(input, (*batch, channels // (r * r), r, r, height, width))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return reshape(permute(split, order), (*batch, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Return the inverse of `pixel_shuffle`."""
    *batch, channels, height, width = input.shape
    check_positive("pixel_unshuffle", "downscale_factor", (downscale_factor,))
    r, n = downscale_factor, len(batch)
    if height % r or width % r:
        raise AutogradError(f"pixel_unshuffle expects height and width to be divisible by downscale_factor {r}")
    split = reshape(input, (*batch, channels, height // r, r, width // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return reshape(permute(split, order), (*batch, channels * r * r, height // r, width // r))


def channel_shuffle(input: Any, groups: int) -> Any:
    """Return `input` (batch, channels, ...) with the channels of its groups taken in turn."""
    batch, channels, *rest = input.shape
    check_positive("channel_shuffle", "groups", (groups,))
    if channels % groups:
        raise AutogradError(f"Number of channels must be divisible by groups. Got {channels} channels, {groups} groups")
    split = reshape(input, (batch, groups, channels // groups, *rest))
    return reshape(transpose(split, 1, 2), input.shape)
