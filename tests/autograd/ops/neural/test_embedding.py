"""The family of ops in `ops/lookup.py`."""

from __future__ import annotations

from typing import Any


def test_the_row_of_padding_gets_no_gradient(T: Any):
    weight = T.ones(3, 2, requires_grad=True)
    T.nn.functional.embedding(T.tensor([0, 1, 1]), weight, padding_idx=1).sum().backward()
    T.nn.functional.embedding(T.tensor([2]), weight, padding_idx=-1).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [0, 0], [0, 0]]


def test_channels_are_left_out_whole_and_the_others_scaled(T: Any):
    T.manual_seed(0)
    out = T.nn.functional.dropout2d(T.ones(4, 8, 2, 2), 0.5)
    each = out.reshape(32, 4)
    assert {tuple(row) for row in each.tolist()} == {(0.0,) * 4, (2.0,) * 4}


def test_alpha_dropout_keeps_mean_and_variance(T: Any):
    T.manual_seed(0)
    for name in ("alpha_dropout", "feature_alpha_dropout"):
        out = getattr(T.nn.functional, name)(T.randn(100, 100, 2), 0.3, True)
        assert abs(out.mean().item()) < 0.05
        assert abs(out.var().item() - 1) < 0.1


def test_random_slopes_lie_between_their_bounds(T: Any):
    slopes = T.nn.functional.rrelu(-T.ones(100), 0.2, 0.4, True)
    assert -0.4 <= slopes.min().item() < slopes.max().item() <= -0.2
