"""Convolutions, pooling, resampling, and what else networks do to images and sequences."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

from typing import Any

import numpy as np

from ..inputs import complex_, family, ints, positive, real


def f(name: str, *args: Any, **options: Any) -> Any:
    """The function of that name of `nn.functional`, with further arguments."""
    return lambda T, *x: getattr(T.nn.functional, name)(*x, *args, **options)


add = family("windows")
add("unfold-square", lambda T, x: x.unfold(0, 2, 1) ** 2, real(3))

add = family("convolution")
for _label, _options in {
    "plain": {}, "stride": {"stride": 2}, "padding": {"padding": 1}, "dilation": {"dilation": 2},
    "all": {"stride": 2, "padding": 2, "dilation": 2}, "same": {"padding": "same"}, "valid": {"padding": "valid"},
}.items():  # fmt: skip
    _odd = 3 if _label == "same" else 2  # of an even one torch warns
    add(f"conv1d-{_label}", f("conv1d", **_options), real(2, 2, 5), real(2, 2, _odd), real(2))
    add(f"conv2d-{_label}", f("conv2d", **_options), real(1, 2, 4, 3), real(2, 2, _odd, _odd), real(2))
add("conv1d-same-even", f("conv1d", padding="same"), real(1, 1, 3), real(1, 1, 2), oracle=False)
add("conv1d-least", f("conv1d"), real(1, 1, 2), real(1, 1, 2))
add("conv2d-groups", f("conv2d", groups=2, stride=(1, 2), padding=(1, 0)), real(1, 2, 3, 3), real(4, 1, 2, 2), real(4))
add("conv2d-unbatched", f("conv2d"), real(2, 3, 3), real(1, 2, 2, 2))
add("conv1d-empty", f("conv1d"), real(0, 1, 3), real(2, 1, 2), real(2))
add("conv1d-complex", f("conv1d"), complex_(1, 2, 3), complex_(1, 2, 2))
add("conv3d", f("conv3d", padding=1), real(1, 1, 2, 2, 2), real(1, 1, 2, 2, 2), real(1))
for _label, _options in {
    "plain": {}, "stride": {"stride": 2}, "padding": {"padding": 1}, "dilation": {"dilation": 2},
    "output": {"stride": 3, "output_padding": 1},
}.items():  # fmt: skip
    add(f"conv_transpose1d-{_label}", f("conv_transpose1d", **_options), real(2, 2, 3), real(2, 1, 2), real(1))
    add(f"conv_transpose2d-{_label}", f("conv_transpose2d", **_options), real(1, 2, 2, 3), real(2, 1, 2, 2), real(1))
add("conv_transpose2d-groups", f("conv_transpose2d", groups=2), real(1, 2, 2, 2), real(2, 1, 2, 2))
add("conv_transpose3d", f("conv_transpose3d", stride=2), real(1, 1, 2, 1, 2), real(1, 1, 1, 2, 2))

add = family("pooling")
for _label, _options in {
    "plain": {}, "stride": {"stride": 1}, "padding": {"padding": 1}, "ceil": {"ceil_mode": True},
}.items():  # fmt: skip
    for _name in ("max_pool1d", "avg_pool1d"):
        add(f"{_name}-{_label}", f(_name, 2, **_options), real(1, 2, 5))
    for _name in ("max_pool2d", "avg_pool2d"):
        add(f"{_name}-{_label}", f(_name, 2, **_options), real(2, 1, 3, 5))
add("max_pool1d-dilation", f("max_pool1d", 2, 1, dilation=2), real(2, 5))
add("max_pool2d-indices", f("max_pool2d", (2, 3), (1, 2), (1, 0), return_indices=True), real(1, 2, 4, 5))
add("max_pool2d-ties", f("max_pool2d", 2), np.ones((1, 1, 2, 4)), order=0)
add("avg_pool1d-inside", f("avg_pool1d", 3, 2, 1, True, False), real(1, 6))
add("avg_pool2d-divisor", f("avg_pool2d", 2, divisor_override=3), real(1, 4, 4))
add("avg_pool2d-edges", f("avg_pool2d", 3, 2, 1, True, False), real(1, 1, 4, 6))
add("max_pool3d", f("max_pool3d", 2, 1, (1, 0, 1)), real(1, 1, 2, 2, 2))
add("avg_pool3d", f("avg_pool3d", (1, 2, 2), 1, (0, 1, 0)), real(1, 1, 2, 2, 3))
add("adaptive_avg_pool3d", f("adaptive_avg_pool3d", (1, None, 2)), real(1, 2, 2, 2, 3))
add("lp_pool1d", f("lp_pool1d", 3, 2), positive(1, 2, 5))
add("lp_pool2d", f("lp_pool2d", 2, 2, 1), positive(1, 1, 3, 3))
for _name in ("adaptive_avg_pool1d", "adaptive_max_pool1d"):
    add(_name, lambda T, x, n=_name: (f(n, 3)(T, x), f(n, 2)(T, x), f(n, 1)(T, x)), real(1, 2, 5))
for _name in ("adaptive_avg_pool2d", "adaptive_max_pool2d"):
    add(_name, lambda T, x, n=_name: (f(n, 2)(T, x), f(n, (3, None))(T, x), f(n, (1, 2))(T, x)), real(1, 1, 4, 3))
add(
    "unfold",
    lambda T, x: (f("unfold", 2)(T, x), f("unfold", (2, 3), 1, 1, 2)(T, x), f("unfold", 2, 2)(T, x[0])),
    real(1, 2, 3, 4),
)
add(
    "fold",
    lambda T, x: (
        f("fold", (3, 3), 2)(T, x),
        f("fold", (2, 2), 2, padding=1, stride=1)(T, f("unfold", 2, padding=1)(T, x.reshape(2, 2, 2, 4)[..., :2])),
    ),
    real(1, 8, 4),
)

add = family("interpolation")
for _mode in ("nearest", "nearest-exact", "linear", "area"):
    add(
        f"interpolate-1-{_mode}",
        lambda T, x, m=_mode: (f("interpolate", 5, mode=m)(T, x), f("interpolate", 2, mode=m)(T, x)),
        real(1, 2, 3),
    )
for _mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
    add(
        f"interpolate-2-{_mode}",
        lambda T, x, m=_mode: (f("interpolate", (4, 2), mode=m)(T, x), f("interpolate", scale_factor=2, mode=m)(T, x)),
        real(1, 1, 3, 3),
    )
    add(
        f"interpolate-scale-{_mode}",
        lambda T, x, m=_mode: (
            f("interpolate", scale_factor=(1.6, 0.7), mode=m)(T, x),
            f("interpolate", scale_factor=1.6, mode=m, recompute_scale_factor=True)(T, x),
        ),
        real(1, 1, 3, 4),
    )
for _mode in ("bilinear", "bicubic"):
    add(f"interpolate-corners-{_mode}", f("interpolate", (4, 5), mode=_mode, align_corners=True), real(1, 1, 3, 2))
add("interpolate-3", f("interpolate", (3, 2, 2), mode="trilinear"), real(1, 1, 2, 2, 3))

add = family("embedding")
add("embedding-square", lambda T, i, w: f("embedding")(T, i, w) ** 2, ints(3, 2, 3), real(3, 2))
for _label, _options in {"plain": {}, "causal": {"is_causal": True}, "scale": {"scale": 0.3}}.items():
    add(
        f"attention-{_label}",
        f("scaled_dot_product_attention", **_options),
        real(1, 2, 3),
        real(1, 3, 3),
        real(1, 3, 2),
    )
add(
    "attention-mask",
    lambda T, q, k, v, m, b: (
        f("scaled_dot_product_attention", m)(T, q, k, v) + f("scaled_dot_product_attention", b)(T, q, k, v)
    ),
    real(2, 3),
    real(3, 3),
    real(3, 2),
    np.array([[True, False, True], [True, True, True]]),
    real(2, 3),
)
add("pixel_shuffle", f("pixel_shuffle", 2), real(1, 4, 2, 1))
add("pixel_unshuffle", f("pixel_unshuffle", 2), real(1, 1, 2, 4))
add("channel_shuffle", f("channel_shuffle", 2), real(1, 4, 2))
for _name, _shape in (
    ("dropout1d", (1, 2, 2)), ("dropout2d", (1, 2, 2, 2)), ("dropout3d", (1, 2, 1, 2, 2)),
    ("alpha_dropout", (2, 2)), ("feature_alpha_dropout", (1, 2, 2)),
):  # fmt: skip
    add(f"{_name}-off", lambda T, x, n=_name: f(n, 0.5, False)(T, x) * 2, real(*_shape))
