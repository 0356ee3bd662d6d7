"""The family of ops in `ops/rectifiers.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

from ..check import compare_at

BENT = """
    celu elu hardshrink hardsigmoid hardswish hardtanh logsigmoid relu relu6 selu softplus softshrink softsign
    tanhshrink
"""


@pytest.mark.oracle
@pytest.mark.parametrize("name", BENT.split())
def test_at_bends_and_at_no_number_as_torch(name: str):
    torch: Any = pytest.importorskip("torch")

    def run(T: Any, x: Any) -> Any:
        return getattr(T.nn.functional, name)(x)

    compare_at(run, np.array([0.0, 1.0, -1.0, 0.5, -0.5, 19.0, -800.0]), torch, order=1 + (name != "hardsigmoid"))
    # torch computes the derivative of hardsigmoid with the 1/6 of single precision
    nan = np.array([np.nan] if name == "hardsigmoid" else [np.nan, 3.0, -3.0, 6.0])
    compare_at(run, nan, torch, order=1)


@pytest.mark.oracle
def test_infinite_as_torch():
    torch: Any = pytest.importorskip("torch")
    for name in ("hardtanh", "hardswish", "relu6", "softshrink", "logsigmoid", "hardsigmoid"):
        point = np.array([np.inf, -np.inf])
        compare_at(lambda T, x, name=name: getattr(T.nn.functional, name)(x), point, torch, order=1)


def test_logsigmoid_at_zero_has_a_slope_of_one_half_forwards_too():
    x = rg.zeros(2, dtype=rg.float64)
    _, tangent = rg.func.jvp(rg.nn.functional.logsigmoid, (x,), (rg.ones(2, dtype=rg.float64),))
    assert tangent.tolist() == [0.5, 0.5]
    assert rg.autograd.gradcheck(rg.nn.functional.logsigmoid, (x.requires_grad_(),))


def test_softplus_of_half_precision_does_not_overflow_below_its_threshold():
    assert rg.nn.functional.softplus(rg.tensor([15.0], dtype=rg.float16)).tolist() == [15.0]
