"""Bent functions, normalization, distances and losses of networks."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

from typing import Any

import numpy as np

from ..inputs import SHAPES, family, ints, positive, real
from .images import f

add = family("rectifiers")
NAMES = """
    celu hardsigmoid hardswish hardtanh hardshrink logsigmoid mish relu6 rrelu selu softshrink softsign tanhshrink
""".split()
for _shape in SHAPES:
    for _name in NAMES:
        # torch computes the derivative of hardsigmoid with the 1/6 of single precision
        add(f"{_name}{list(_shape)}", f(_name), real(*_shape) * 2.1, oracle=_name != "hardsigmoid")
add(
    "options",
    lambda T, x: (
        f("celu", 0.5)(T, x),
        f("hardtanh", -0.3, 0.7)(T, x),
        f("softshrink", 0.2)(T, x),
        f("hardshrink", 0.3)(T, x),
        f("threshold", 0.2, -1.0)(T, x),
    ),
    real(5),
)
add(
    "bends",
    lambda T, x: (
        f("relu6")(T, x),
        f("hardtanh")(T, x),
        f("hardsigmoid")(T, x),
        f("relu")(T, x),
        f("softshrink", 1.0)(T, x),
        f("hardshrink", 1.0)(T, x),
        f("threshold", 1.0, 0.0)(T, x),
    ),
    np.array([0.0, 6.0, -1.0, 1.0, 3.0, -3.0]),
    order=0,
)
add("logsigmoid-wide", f("logsigmoid"), np.array([-900.0, 0.5, 900.0]), order=1)
add("prelu", lambda T, x, w, v: (f("prelu")(T, x, w), f("prelu")(T, x, v)), real(2, 3), np.array([0.2]), positive(3))
add("glu", lambda T, x: (f("glu")(T, x), f("glu", 0)(T, x)), real(2, 4))
add("softmin", f("softmin", 1), real(2, 3))
add("same", lambda T, x: (f("relu")(T, x), f("sigmoid")(T, x), f("tanh")(T, x)), real(4))

add = family("normalization")
add("normalize", lambda T, x: (f("normalize")(T, x), f("normalize", 1.0, 0)(T, x)), real(2, 3))
add("normalize-zero", f("normalize"), np.array([[0.0, 0.0], [3.0, 4.0]]), order=0)
add(
    "layer_norm",
    lambda T, x, w, b: (f("layer_norm", (3,), w, b)(T, x), f("layer_norm", (2, 3))(T, x)),
    real(2, 3),
    real(3),
    real(3),
)
add(
    "rms_norm",
    lambda T, x, w: (f("rms_norm", (3,), w)(T, x), f("rms_norm", (2, 3), eps=0.1)(T, x)),
    real(2, 3),
    real(3),
)
add(
    "group_norm",
    lambda T, x, w, b: (f("group_norm", 2, w, b)(T, x), f("group_norm", 1)(T, x)),
    real(2, 4, 2),
    real(4),
    real(4),
)
add("instance_norm", lambda T, x, w, b: f("instance_norm", weight=w, bias=b)(T, x), real(2, 2, 3), real(2), real(2))


def _batch(T: Any, x: Any, w: Any, b: Any) -> Any:
    mean, var = T.zeros(2, dtype=x.dtype), T.ones(2, dtype=x.dtype)
    out = T.nn.functional.batch_norm(x, mean, var, w, b, training=True)
    return out, T.nn.functional.batch_norm(x, None, None, training=True)


def _statistics(T: Any, x: Any) -> Any:
    mean, var = T.zeros(2, dtype=x.dtype), T.ones(2, dtype=x.dtype)
    T.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.3)
    return mean, var, T.nn.functional.batch_norm(x, mean, var)


add("batch_norm-statistics", _statistics, real(3, 2), order=0)
add("batch_norm", _batch, real(3, 2), real(2), real(2))
add("batch_norm-images", f("batch_norm", None, None, training=True), real(2, 2, 2, 2))
add(
    "batch_norm-off",
    lambda T, x, m, v: f("batch_norm", m.detach(), v.detach())(T, x),
    real(3, 2),
    real(2),
    positive(2),
    order=0,
)
add("local_response_norm", f("local_response_norm", 3, alpha=0.5), real(1, 4, 2))

add = family("distances")
_REDUCTIONS = ("mean", "sum", "none")
for _r in _REDUCTIONS:
    add(f"smooth_l1-{_r}", f("smooth_l1_loss", reduction=_r), real(2, 3), real(2, 3) + 0.3)
    add(f"huber-{_r}", f("huber_loss", reduction=_r, delta=0.7), real(2, 3), real(2, 3) + 0.3)
    add(f"kl_div-{_r}", f("kl_div", reduction=_r), real(2, 3), positive(2, 3), oracle=_r != "mean")
    add(f"bce-{_r}", f("binary_cross_entropy", reduction=_r), np.array([0.2, 0.7, 0.4]), np.array([0.1, 0.8, 0.3]))
    add(f"bce_logits-{_r}", f("binary_cross_entropy_with_logits", reduction=_r), real(2, 3), positive(2, 3) * 0.3)
    add(
        f"soft_margin-{_r}",
        lambda T, x, y, r=_r: f("soft_margin_loss", reduction=r)(T, x, y * 2.0 - 1),
        real(3),
        ints(2, 3),
    )
    add(
        f"poisson-{_r}",
        lambda T, x, y, r=_r: (
            f("poisson_nll_loss", reduction=r)(T, x, y),
            f("poisson_nll_loss", False, reduction=r)(T, x.exp(), y),
        ),
        real(3),
        positive(3),
    )
    add(
        f"gaussian-{_r}",
        lambda T, x, y, v, r=_r: f("gaussian_nll_loss", reduction=r)(T, x, y, v),
        real(3),
        real(3),
        positive(3),
    )
    add(
        f"hinge-{_r}",
        lambda T, x, y, r=_r: f("hinge_embedding_loss", reduction=r)(T, x, y * 2 - 1),
        real(4),
        np.array([0, 1, 1, 0]),
    )
    add(
        f"ranking-{_r}",
        lambda T, a, b, y, r=_r: f("margin_ranking_loss", reduction=r, margin=0.2)(T, a, b, y * 2 - 1),
        real(4),
        real(4) + 0.05,
        np.array([0, 1, 1, 0]),
    )
    add(
        f"cosine_embedding-{_r}",
        lambda T, a, b, y, r=_r: f("cosine_embedding_loss", reduction=r)(T, a, b, y * 2 - 1),
        real(3, 2),
        real(3, 2),
        np.array([0, 1, 1]),
    )
    add(
        f"triplet-{_r}",
        lambda T, a, b, c, r=_r: (
            f("triplet_margin_loss", reduction=r)(T, a, b, c),
            f("triplet_margin_loss", reduction=r, swap=True)(T, a, b, c),
        ),
        real(2, 3),
        real(2, 3) + 0.4,
        real(2, 3),
    )
    add(
        f"multilabel-{_r}",
        lambda T, x, y, r=_r: f("multilabel_soft_margin_loss", reduction=r)(T, x, y * 1.0),
        real(2, 3),
        ints(2, 2, 3),
    )
add(
    "smooth_l1-beta",
    lambda T, a, b: (f("smooth_l1_loss", beta=0.3)(T, a, b), f("smooth_l1_loss", beta=0.0)(T, a, b)),
    real(3),
    real(3) + 0.02,
)
add("kl_div-logs", f("kl_div", reduction="batchmean", log_target=True), real(2, 3), real(2, 3))
add(
    "bce-weight",
    lambda T, x, y, w: (
        f("binary_cross_entropy", w.detach())(T, x, y),
        f("binary_cross_entropy_with_logits", w.detach(), pos_weight=w.detach() * 2)(T, x, y),
    ),
    np.array([0.2, 0.7]),
    np.array([0.1, 0.8]),
    positive(2),
    order=0,
)
add("bce-ends", f("binary_cross_entropy"), np.array([0.0, 1.0, 0.5]), np.array([1.0, 0.0, 1.0]), order=0)
add(
    "poisson-full",
    lambda T, x, y: f("poisson_nll_loss", full=True)(T, x, y.detach()),
    real(3),
    np.array([0.5, 2.0, 3.0]),
    order=0,
)
add("gaussian-full", lambda T, x, y, v: f("gaussian_nll_loss", full=True)(T, x, y, v), real(3), real(3), positive(3))
add(
    "pairwise_distance",
    lambda T, a, b: (f("pairwise_distance")(T, a, b), f("pairwise_distance", 1.0, keepdim=True)(T, a, b)),
    real(2, 3),
    real(2, 3) + 0.3,
)
add(
    "cosine_similarity",
    lambda T, a, b: (f("cosine_similarity")(T, a, b), f("cosine_similarity", 0)(T, a, b)),
    real(2, 3),
    real(2, 3),
)
