"""Functions of networks, and dtypes."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import numpy as np

from ..check import functional
from ..inputs import (
    SHAPES,
    family,
    ints,
    positive,
    real,
)

# ---- networks --------------------------------------------------------------------------------------------------------

add = family("activations")
for _shape, _dim in [((), 0), ((3,), 0), ((2, 3), 0), ((2, 3), -1), ((2, 3, 2), 1)]:
    for _name in ("softmax", "log_softmax"):
        add(f"{_name}{list(_shape)}{_dim}", lambda T, x, n=_name, d=_dim: getattr(T, n)(x, d), real(*_shape))
add("softmax-dtype", lambda T, x: T.softmax(x, 0, dtype=T.float64), ints(3, 3), order=0)
for _shape in SHAPES:
    add(f"softplus{list(_shape)}", lambda T, x: functional(T).softplus(x), real(*_shape))
add("softplus-threshold", lambda T, x: functional(T).softplus(x, beta=2.0, threshold=1.5), real(5))
add("leaky_relu", lambda T, x: functional(T).leaky_relu(x) + functional(T).leaky_relu(x, 0.2), real(5))
add("elu", lambda T, x: functional(T).elu(x) + functional(T).elu(x, 0.5), real(5))
add("silu", lambda T, x: functional(T).silu(x), real(5))
add("gelu", lambda T, x: functional(T).gelu(x), real(5))
add("gelu-tanh", lambda T, x: functional(T).gelu(x, approximate="tanh"), real(5))

add = family("losses")
for _reduction in ("mean", "sum", "none"):
    add(
        f"mse-{_reduction}",
        lambda T, a, b, r=_reduction: functional(T).mse_loss(a, b, reduction=r),
        real(2, 3),
        real(2, 3),
    )
    add(
        f"l1-{_reduction}",
        lambda T, a, b, r=_reduction: functional(T).l1_loss(a, b, reduction=r),
        real(2, 3),
        real(2, 3) + 0.01,
    )
    add(
        f"nll-{_reduction}",
        lambda T, x, y, r=_reduction: functional(T).nll_loss(T.log_softmax(x, 1), y, reduction=r),
        real(4, 3),
        np.array([0, 2, 1, 2]),
    )
    add(
        f"cross_entropy-{_reduction}",
        lambda T, x, y, r=_reduction: functional(T).cross_entropy(x, y, reduction=r),
        real(4, 3),
        np.array([0, 2, 1, 2]),
    )
    add(
        f"ignored-{_reduction}",
        lambda T, x, y, w, r=_reduction: functional(T).cross_entropy(
            x, y, weight=w.detach(), ignore_index=1, reduction=r
        ),
        real(4, 3),
        np.array([0, 2, 1, 2]),
        positive(3),
        order=0,
    )
    add(
        f"smoothed-{_reduction}",
        lambda T, x, y, r=_reduction: functional(T).cross_entropy(x, y, label_smoothing=0.1, reduction=r),
        real(4, 3),
        np.array([0, 2, 1, 2]),
    )
    add(
        f"probabilities-{_reduction}",
        lambda T, x, y, r=_reduction: functional(T).cross_entropy(x, y, reduction=r),
        real(4, 3),
        positive(4, 3),
    )
add(
    "smoothed-weighted",
    lambda T, x, y, w: functional(T).cross_entropy(x, y, weight=w.detach(), label_smoothing=0.1, ignore_index=0),
    real(4, 3),
    np.array([0, 2, 1, 2]),
    positive(3),
    order=0,
)
add("cross_entropy-vector", lambda T, x, y: functional(T).cross_entropy(x, y), real(3), np.array(1))
add("cross_entropy-images", lambda T, x, y: functional(T).cross_entropy(x, y), real(2, 3, 2), ints(3, 2, 2))
add("one_hot", lambda T, y: (functional(T).one_hot(y, 4), functional(T).one_hot(y)), ints(3, 2, 2), order=0)

add = family("axis_order")
add("to_dtype", lambda T, x: x.to(T.float32).sin().double(), real(3), order=0, float32=False)
add("to_dtype-int", lambda T, x: (x.long(), x.bool(), x.int(), x.to(T.complex128)), real(3), order=0, float32=False)
add("to_dtype-complex", lambda T, x: x.to(T.complex128) * 1j, real(3), order=1, float32=False)

add = family("linear")
add(
    "linear",
    lambda T, x, w, b: functional(T).linear(x, w, b) + functional(T).linear(x, w),
    real(2, 3),
    real(4, 3),
    real(4),
)
add(
    "bilinear",
    lambda T, a, b, w, c: functional(T).bilinear(a, b, w, c) + functional(T).bilinear(a, b, w),
    real(2, 3),
    real(2, 2),
    real(4, 3, 2),
    real(4),
)
