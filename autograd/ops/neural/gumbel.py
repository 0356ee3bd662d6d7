"""`gumbel_softmax`: samples of categories, soft or one-hot, with the gradient of the soft ones.

The noise is drawn on the random stream of the moment.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...dispatch.random_numbers import rand_like
from ...registry.dtype_constraints import real_floats, takes
from ..elementwise.arithmetic import clamp_min
from ..elementwise.unary import log, log1p
from ..indexing.selecting import scatter
from ..reduction.minmax import argmax
from .activations import softmax

PUBLIC = "gumbel_softmax".split()


@takes(real_floats)
def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """Return samples of the categories along `dim`, whose logarithms of weights are `logits`.

    Args:
        tau: the temperature: the lower, the nearer are soft samples to one-hot ones.
        hard: return one-hot samples, with the gradient of the soft ones.
        eps: without effect, as in PyTorch.

    Raises:
        RuntimeError: a temperature of zero.
    """
    if not tau:
        raise AutogradError("gumbel_softmax: the temperature `tau` must not be zero")
    waited = clamp_min(-log1p(-rand_like(logits)), np.finfo(logits.dtype).tiny)
    soft = softmax((logits - log(waited)) / tau, dim)
    if not hard:
        return soft
    fixed = soft.detach()
    return scatter(fixed.new_zeros(fixed.shape), dim, argmax(fixed, dim, True), 1.0) - fixed + soft
