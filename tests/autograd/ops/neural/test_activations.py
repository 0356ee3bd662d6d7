"""The family of ops in `ops/activations.py`."""

from __future__ import annotations

import pytest

import raygrad as rg


def test_dropout_keeps_the_mean_and_draws_anew():
    rg.manual_seed(0)
    x = rg.ones(10_000, requires_grad=True)
    y = rg.dropout(x, 0.25)
    assert sorted(set(y.tolist())) == pytest.approx([0, 4 / 3])
    assert y.mean().item() == pytest.approx(1, abs=0.03)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == y.tolist()
    assert rg.dropout(x, 0.25).tolist() != y.tolist()
    assert rg.dropout(x, 0.25, training=False) is x
    assert rg.dropout(x, 1.0).sum().item() == 0
    with pytest.raises(ValueError, match="between 0 and 1"):
        rg.dropout(x, 1.5)
