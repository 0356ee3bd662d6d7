"""The family of ops in `ops/measures.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

from ..check import compare_at


@pytest.mark.oracle
def test_losses_at_bends_as_torch():
    torch: Any = pytest.importorskip("torch")

    def loss(name: str, target: list[float], **options: Any) -> Any:
        def run(T: Any, x: Any) -> Any:
            return getattr(T.nn.functional, name)(x, T.tensor(target, dtype=T.float64), **options)

        return run

    zero = np.zeros(2)
    for name in ("binary_cross_entropy_with_logits", "multilabel_soft_margin_loss", "soft_margin_loss"):
        compare_at(loss(name, [0.0, 1.0]), zero, torch)
    for options in ({}, {"delta": 0.5}):
        gaps = np.array([0.0, 1.0, -1.0, 0.5, -0.5, np.inf, np.nan, 3.0])
        compare_at(loss("huber_loss", [0.0] * 8, reduction="none", **options), gaps, torch, order=1)
        compare_at(loss("huber_loss", [0.0] * 5, **options), gaps[:5], torch)
    for options in ({}, {"beta": 0.5}, {"beta": 0.0}):
        compare_at(loss("smooth_l1_loss", [0.0] * 3, **options), np.array([0.0, 0.3, -2.0]), torch)
    for target in ([0.0, 1.0, 0.0, 1.0, 0.3], [1.0, 0.0, 0.5, 0.5, 1.0]):
        compare_at(loss("binary_cross_entropy", target), np.array([0.0, 1.0, 0.2, 0.7, 0.5]), torch, order=1)


@pytest.mark.oracle
@pytest.mark.parametrize("wrong", [2.0, -0.1, float("nan")])
def test_what_is_no_probability_is_refused_as_by_torch(wrong: float):
    torch: Any = pytest.importorskip("torch")
    for T in (torch, rg):
        with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
            T.nn.functional.binary_cross_entropy(T.tensor([0.5, wrong]), T.tensor([1.0, 1.0]))


def test_what_a_session_computes_is_refused_where_it_is_no_probability():
    with rg.Session():
        computed = rg.tensor([0.5, 3.0], requires_grad=True) * 1.0
        loss = rg.nn.functional.binary_cross_entropy(computed, rg.ones(2))
        with pytest.raises(RuntimeError, match=r"between 0 and 1, but one is 3\.0"):
            loss.item()
