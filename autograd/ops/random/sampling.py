"""Samples of distributions with parameters in tensors: bernoulli, binomial, multinomial, normal, poisson;
no gradient flows to these.

Each draws evenly or normally distributed numbers, on the random stream of the moment, and transforms them by ops.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from raygrad.errors import AutogradError, ShapeError

from ...dispatch.dispatch import call
from ...dispatch.random_numbers import rand, rand_like, randint, randn
from ...registry.define_op import broadcast_shape, define
from ...registry.dtype_constraints import real_floats, takes
from ..elementwise.arithmetic import clamp_max
from ..elementwise.unary import log1p
from ..layout.axis_order import to_dtype
from ..reduction.order_statistics import searchsorted
from ..reduction.reduce import cumsum
from ..reduction.sort import topk

PUBLIC = "bernoulli binomial multinomial normal poisson".split()


def _at_hand(tensor: Any) -> Any:
    """Return a tensor's array if it is there without waiting, to check its values; else None."""
    data = getattr(tensor, "_data", tensor)
    return data if type(data) is np.ndarray else None


@takes(real_floats)
def bernoulli(input: Any, p: float | None = None) -> Any:
    """Return ones with the probabilities in `input` (or with `p`, in its shape), zeros elsewhere.

    Raises:
        RuntimeError: a probability is not in [0, 1]; in a session, tensors are not looked at.
    """
    given = _at_hand(input) if p is None else np.asarray(p)
    if given is not None and not ((given >= 0) & (given <= 1)).all():
        raise AutogradError("Expected p_in >= 0 && p_in <= 1: bernoulli takes probabilities between 0 and 1")
    drawn = rand_like(input)
    return to_dtype(drawn < (input.detach() if p is None else p), input.dtype)


def _poisson(rate: Any, seed: Any) -> Any:
    draw: Any = np.random.default_rng(int(seed))
    return np.asarray(draw.poisson(rate)).astype(rate.dtype)


def _binomial(count: Any, prob: Any, seed: Any) -> Any:
    draw: Any = np.random.default_rng(int(seed))
    return np.asarray(draw.binomial(count.astype(int), prob)).astype(count.dtype)


_POISSON = define(
    "poisson",
    ("rate", "seed"),
    _poisson,
    lambda params, rate, seed: (rate.shape, rate.dtype),
    host_only=True,
)
_BINOMIAL = define(
    "binomial",
    ("count", "prob", "seed"),
    _binomial,
    lambda params, count, prob, seed: (broadcast_shape("binomial", (count.shape, prob.shape)), count.dtype),
    host_only=True,
)


def _seed() -> Any:
    return randint(0, 1 << 62, ())


@takes(real_floats)
def poisson(input: Any) -> Any:
    """Return numbers of the Poisson distributions whose rates are in `input`.

    Raises:
        RuntimeError: a rate is negative; in a session, tensors are not looked at.
    """
    given = _at_hand(input)
    if given is not None and (given < 0).any():
        raise AutogradError("invalid Poisson rate, expected rate to be non-negative")
    return call(_POISSON, (input.detach(), _seed()))


@takes(real_floats)
def binomial(count: Any, prob: Any) -> Any:
    """Return how many of `count` trials succeed, each with the probability `prob`; the two broadcast.

    Raises:
        RuntimeError: a negative count, or a probability that is not in [0, 1]; in a session, tensors are not looked at.
    """
    trials, chances = _at_hand(count), _at_hand(prob)
    if (trials is not None and (trials < 0).any()) or (
        chances is not None and not ((chances >= 0) & (chances <= 1)).all()
    ):
        raise AutogradError("binomial: expected counts that are not negative, and probabilities between 0 and 1")
    return call(_BINOMIAL, (count.detach(), prob.detach(), _seed()))


def normal(mean: Any, std: Any = 1.0, size: Any = None, *, dtype: Any = None, device: Any = None) -> Any:
    """Return normally distributed numbers of the means and standard deviations that tensors or numbers give.

    Args:
        size: the shape, if both are numbers.

    Raises:
        RuntimeError: a number `std` is negative.
        TypeError: two numbers without a `size`.
    """
    if not hasattr(std, "shape") and not std >= 0:
        raise AutogradError(f"normal expects std >= 0.0, but found std {std}")
    if hasattr(std, "dtype") and std.dtype.kind == "c":
        raise AutogradError("normal expects standard deviation to be non-complex")
    given = [one.detach() for one in (mean, std) if hasattr(one, "shape")]
    if not given:
        if size is None:
            raise TypeError("normal() of two numbers needs a `size`")
        return randn(size, dtype=dtype, device=device) * std + mean
    shape = broadcast_shape("normal", [one.shape for one in given])
    drawn = randn(shape, dtype=given[0].dtype, device=given[0].device)
    scale, centre = (one.detach() if hasattr(one, "shape") else one for one in (std, mean))
    return drawn * scale + centre


@takes(real_floats)
def multinomial(input: Any, num_samples: int, replacement: bool = False) -> Any:
    """Return `num_samples` indices per row, drawn with the weights of that row.

    Raises:
        RuntimeError: more samples than nonzero weights without replacement; weights that are negative, not finite, or
            zero altogether. In a session the values of weights are not looked at.
        ShapeError: neither a vector nor a matrix.
    """
    if input.ndim not in (1, 2):
        raise ShapeError("prob_dist must be 1 or 2 dim")
    num_samples = operator.index(num_samples)
    if num_samples <= 0:
        raise AutogradError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]:
        raise AutogradError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    weights, given = input.detach(), _at_hand(input)
    if given is not None:
        if not np.isfinite(given).all() or (given < 0).any():
            raise AutogradError("probability tensor contains either `inf`, `nan` or element < 0")
        enough = np.count_nonzero(given, -1) >= (1 if replacement else num_samples)
        if not enough.all():
            raise AutogradError(
                "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)"
            )
    if not replacement:  # the first arrivals of processes with these rates
        return topk(weights / -log1p(-rand_like(weights)), num_samples)[1]
    bounds = cumsum(weights, -1)
    total = bounds[..., -1:]
    drawn = rand((*input.shape[:-1], num_samples), dtype=input.dtype, device=input.device) * total
    last = (weights > 0).long() * _places(weights)
    return _capped(searchsorted(bounds, drawn, right=True), last)


def _places(weights: Any) -> Any:
    return cumsum(weights.new_ones(weights.shape).long(), -1) - 1


def _capped(found: Any, last: Any) -> Any:
    """Return places limited to the last one with a weight: rounding may lead beyond it."""
    return clamp_max(found, last.amax(-1, True))
