"""Sampled functions: derivatives, histograms, modes, spectra, reductions into slices, unpooling, margins, grids."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import numpy as np

from ..inputs import family, ints, real
from .matrices import regular

add = family("finite_differences")
add("gradient", lambda T, x: (*T.gradient(x), T.gradient(x, spacing=0.5, dim=1, edge_order=2)[0]), real(3, 4))
add(
    "gradient-at",
    lambda T, x, t: (*T.gradient(x, spacing=[t], dim=1), *T.gradient(x, spacing=[t], dim=1, edge_order=2)),
    real(2, 4),
    np.array([0.0, 1.0, 1.5, 4.0]),
    order=1,
)
add = family("pointwise")
add("frexp", lambda T, x: T.frexp(x)[0], real(2, 3))
add = family("where")
add("fill", lambda T, x, v: (T.fill(x, 2.5), T.fill(x, v)), real(2, 3), real())
add = family("cdist")
add("renorm", lambda T, x: (T.renorm(x, 2, 0, 1.0), x.renorm(1, 1, 2.0)), real(3, 4))
add = family("mode")
add("mode", lambda T, x: T.mode(T.floor(x), 1)[0], real(3, 4), order=0)
add = family("top_level")
add("nuclear", lambda T, x: (T.norm(x, "nuc"), x.norm("nuc", (0, 1), True)), real(3, 2))
add = family("solving")
add("pinv-hermitian", lambda T, x: T.linalg.pinv(x + x.mT, hermitian=True), regular(3, 3))
add("pinv-atol", lambda T, x: T.linalg.pinv(x, atol=1e-9, rtol=1e-12), regular(3, 2))
add("tensorsolve-dims", lambda T, a, b: T.linalg.tensorsolve(a, b, dims=(0, 2)), real(2, 4, 2) ** 3, real(4))
add = family("index_reduction")
for _kind in ("prod", "mean", "amax", "amin"):
    add(
        f"index_reduce-{_kind}",
        lambda T, x, i, s, k=_kind: (
            T.index_reduce(x, 0, i, s, k),
            x.index_reduce(1, i, s.t(), k, include_self=False),
            T.index_reduce(x[0, 0], 0, i[1:2], s[0, 0], k),
        ),
        real(3, 3),
        np.array([2, 0, 2]),
        real(3, 3) * 1.1,
        order=1,
    )
add = family("repeating")
add(
    "repeat_interleave-each",
    lambda T, x, n: (T.repeat_interleave(x, n, 1), x.repeat_interleave(n, 1, output_size=3), T.repeat_interleave(n)),
    real(2, 3),
    np.array([0, 2, 1]),
)
add = family("selecting")
add(
    "scatter-reduce",
    lambda T, x, i: (
        T.scatter(x.detach(), 0, i, 1.5, reduce="add"),
        T.scatter(x.detach(), 0, i, 2.5, reduce="multiply"),
    ),
    real(2, 3),
    ints(2, 2, 3),
    order=0,
)

add = family("histograms")
add("histc", lambda T, x: (T.histc(x, 5), T.histc(x, 4, -1.0, 1.0), x.histc(3, 0.5, 0.5)), real(3, 4), order=0)
add(
    "histogram",
    lambda T, x, w: (
        *T.histogram(x, 4),
        *T.histogram(x, 3, range=(-1.0, 1.0), weight=w, density=True),
        T.histogram(x, T.linspace(-2.0, 2.0, 6).double())[0],
    ),
    real(3, 4),
    real(3, 4) ** 2,
    order=0,
)
add(
    "histogramdd",
    lambda T, x: (
        T.histogramdd(x, [2, 3], range=[-3.1, 3.4, -3.2, 3.3])[0],
        *T.histogramdd(x, 2, range=(-1.0, 1.0, -2.0, 2.0))[1],
    ),
    real(5, 2),
    order=0,
)
add = family("order_statistics")
add(
    "searchsorted-sides",
    lambda T, a, v: (
        T.searchsorted(a, v, side="right", out_int32=True),
        T.searchsorted(a.flip(0), v, sorter=T.argsort(a.flip(0))),
        T.bucketize(v, a, out_int32=True, right=True),
    ),
    np.array([-1.0, 0.5, 1.0]),
    np.array([0.5, 2.0]),
    order=0,
)
add = family("rearranging")
add("unravel_index", lambda T, i: T.unravel_index(i, (2, 3, 4)), ints(24, 5), order=0)

add = family("unpooling")
for _dims in (1, 2, 3):
    add(
        f"max_unpool{_dims}d",
        lambda T, x, d=_dims: (
            getattr(T.nn.functional, f"max_unpool{d}d")(
                *getattr(T.nn.functional, f"max_pool{d}d")(x, 2, return_indices=True), 2
            ),
            getattr(T.nn.functional, f"max_unpool{d}d")(
                *getattr(T.nn.functional, f"max_pool{d}d")(x, 2, return_indices=True), 2, output_size=(5,) * d
            ),
        ),
        real(1, 2, *(4,) * _dims),
    )
    add(
        f"adaptive_max_pool{_dims}d-indices",
        lambda T, x, d=_dims: getattr(T.nn.functional, f"adaptive_max_pool{d}d")(x, 2, return_indices=True),
        real(1, 2, *(3,) * _dims),
        order=1,
    )

add = family("margin_losses")
_CLASSES = np.array([2, 0])
add(
    "multi_margin_loss",
    lambda T, x, t: (
        T.nn.functional.multi_margin_loss(x, t),
        T.nn.functional.multi_margin_loss(x, t, p=2, margin=0.5, weight=x.detach()[0] * 0 + 1.5, reduction="none"),
        T.nn.functional.multi_margin_loss(x[0], t[0], reduction="sum"),
    ),
    real(2, 3),
    _CLASSES,
    order=1,
)
add(
    "multilabel_margin_loss",
    lambda T, x, t: (
        T.nn.functional.multilabel_margin_loss(x, t, reduction="none"),
        T.nn.functional.multilabel_margin_loss(x[0], t[0]),
    ),
    real(2, 3),
    np.array([[2, 0, -1], [-1, 1, 2]]),
    order=1,
)
add("pdist", lambda T, x: (T.nn.functional.pdist(x), T.nn.functional.pdist(x, 1)), real(4, 3), order=1)
add(
    "triplet_margin_with_distance_loss",
    lambda T, a, p, n: T.nn.functional.triplet_margin_with_distance_loss(
        a, p, n, distance_function=lambda x, y: (x - y).abs().sum(-1), swap=True
    ),
    real(2, 3),
    real(2, 3),
    real(2, 3),
    order=1,
)

add = family("short_time_fourier")
_WINDOW = np.array([0.5, 1.0, 0.7, 0.4])
add(
    "stft",
    lambda T, x, w: (
        T.stft(x, 4, window=w, return_complex=True),
        T.stft(x, 6, 3, 4, w, center=False, normalized=True, return_complex=True),
        x[0].stft(4, 2, pad_mode="constant", onesided=False, window=w, return_complex=True),
    ),
    real(2, 12),
    _WINDOW,
)
add(
    "istft",
    lambda T, x, w: (
        T.istft(T.stft(x, 4, window=w, return_complex=True), 4, window=w),
        T.istft(T.stft(x, 4, 2, window=w, return_complex=True), 4, 2, window=w, length=9),
    ),
    real(2, 12),
    _WINDOW,
)

add = family("grid_sampling")
for _mode, _border, _corners in (
    ("bilinear", "zeros", False),
    ("bilinear", "reflection", False),
    ("bilinear", "border", True),
    ("bicubic", "zeros", False),
    ("bicubic", "border", True),
):
    add(
        f"grid_sample-{_mode}-{_border}",
        lambda T, x, g, m=_mode, b=_border, c=_corners: T.nn.functional.grid_sample(x, g, m, b, c),
        real(1, 2, 3, 4),
        real(1, 2, 3, 2) * 0.7,
        order=1,
    )
add(
    "grid_sample-nearest",
    lambda T, x, g: T.nn.functional.grid_sample(x, g, "nearest", "reflection", True),
    real(1, 2, 3, 4),
    real(1, 2, 3, 2) * 0.7,
    order=0,
)
add(
    "grid_sample-volumes",
    lambda T, x, g: T.nn.functional.grid_sample(x, g, align_corners=False),
    real(1, 1, 2, 3, 2),
    real(1, 2, 1, 2, 3) * 0.5,
    order=1,
)

add = family("embedding_bags")
add(
    "embedding_bag",
    lambda T, w, i, two, three: (
        T.nn.functional.embedding_bag(i, w),
        T.nn.functional.embedding_bag(i, w, mode="sum", per_sample_weights=w[:2, :3] * 0.5),
        T.nn.functional.embedding_bag(i.reshape(-1), w, two, mode="sum", padding_idx=1),
        T.nn.functional.embedding_bag(i.reshape(-1), w, three, mode="mean", include_last_offset=True),
    ),
    real(4, 3),
    np.array([[1, 0, 3], [2, 2, 1]]),
    np.array([0, 2, 2]),
    np.array([0, 1, 5]),
    oracle=False,
)
add(
    "embedding_bag-max",
    lambda T, w, i, o: T.nn.functional.embedding_bag(i, w, o, mode="max"),
    real(4, 3),
    np.array([1, 0, 3, 2, 1]),
    np.array([0, 2, 4]),
    order=1,
)

add = family("where")
add(
    "nonzero_static",
    lambda T, m: (T.nonzero_static(m, size=2), m.nonzero_static(size=9, fill_value=7)),
    np.array([[True, False, True], [False, True, False]]),
    order=0,
)
add = family("padding")
add("constant_pad_nd", lambda T, x: T.constant_pad_nd(x, (1, 2, -1, 1), 2.5), real(3, 2))
