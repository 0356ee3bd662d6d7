"""Anomaly detection (MD-05, MD-06)."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import raygrad as rg


def test_md_05_entering_warns_and_leaving_restores():
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = rg.autograd.detect_anomaly(check_nan=False)
    with mode:
        assert rg.is_anomaly_enabled()
        assert not rg.is_anomaly_check_nan_enabled()
        with mode:
            pass
        assert rg.is_anomaly_enabled()
    assert not rg.is_anomaly_enabled()
    assert rg.is_anomaly_check_nan_enabled()


def test_md_05_the_output_is_counted_among_the_tensors():
    class NaN(rg.autograd.Function):
        @staticmethod
        def forward(ctx, factor, x, y):
            return x * y * factor

        @staticmethod
        def backward(ctx, g):
            return None, g, g * float("nan")

    x, y = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    with rg.autograd.set_detect_anomaly(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="Function 'NaNBackward' returned nan values in its 1th output"):
            NaN.apply(2.0, x, y).sum().backward()


def test_md_06_a_node_that_a_backward_made_tells_of_that_one_too():
    class Cube(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    for make, first, second in (
        (lambda x: Cube.apply(x), "CubeBackwardBackward", "made by the backward of CubeBackward"),
        (lambda x: x.exp(), "MulBackward0", "made by the backward of ExpBackward0"),
    ):
        x = rg.ones(2, dtype=rg.float64, requires_grad=True)
        with rg.autograd.set_detect_anomaly(True):
            y = make(x).sum()
            (g,) = rg.autograd.grad(y, x, create_graph=True)
            with pytest.warns(UserWarning, match=second) as seen, pytest.raises(RuntimeError) as raised:
                g.backward(rg.full((2,), float("nan"), dtype=rg.float64))
        story = raised.value.__notes__[-1]
        assert story == str(seen[-1].message)
        assert story.count("in test_md_06_a_node_that_a_backward_made_tells_of_that_one_too") >= 2
        assert f"Error detected in {first}" in story


def test_md_06_without_the_mode_nothing_is_noted():
    x = rg.ones(2, requires_grad=True)
    unknown: Any = x * 2
    assert unknown.grad_fn.metadata == {}
    with rg.autograd.set_detect_anomaly(True):
        made: Any = x * 2
    assert any("made: Any = x * 2" in line for line in made.grad_fn.metadata["traceback_"])
