"""The family of ops in `ops/activations.py`."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from .cases import FAMILIES
from .check import Case, check, compare

CASES = FAMILIES["activations"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_shapes_dtypes_and_layouts(case: Case):
    check(case)


@pytest.mark.oracle
@pytest.mark.parametrize("case", [c for c in CASES if c.oracle], ids=str)
def test_same_as_torch(case: Case):
    torch: Any = pytest.importorskip("torch")
    compare(case, torch)


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
