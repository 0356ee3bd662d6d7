"""Anomaly detection in sessions: the first node that returns NaN, where it was applied, and which pass ran it."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import pytest

import raygrad as rg


class NaN(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * float("nan")


def model(x: Any) -> Any:
    return NaN.apply(x * 2) * 3  # applied here


def differentiate(y: Any) -> None:
    y.sum().backward()  # the pass begins here


@pytest.fixture(params=["local", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.timeout(180)])])
def address(request: pytest.FixtureRequest) -> str:
    if request.param == "ray":
        request.getfixturevalue("ray_started")
    return request.param


def test_the_first_node_with_nan_is_named_with_both_stacks(address: str) -> None:
    x: Any = rg.ones(2, requires_grad=True)

    def run() -> None:
        with rg.Session(address, workers=2), rg.autograd.detect_anomaly():
            differentiate(model(x))
            _ = x.grad.tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="'NaNBackward' returned nan values in its 0th output") as raised:
            run()
    story = "".join(traceback.format_exception(raised.value))
    assert "# applied here" in story
    assert "# the pass begins here" in story
    assert "MulBackward" not in story


def test_without_the_check_nan_is_a_gradient_like_any_other(address: str) -> None:
    x: Any = rg.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rg.Session(address, workers=2), rg.autograd.detect_anomaly(check_nan=False):
            differentiate(model(x))
            assert str(x.grad.tolist()) == "[nan, nan]"
