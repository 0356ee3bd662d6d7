"""Windows of signal processing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

NAMES = "bartlett_window blackman_window hamming_window hann_window kaiser_window".split()


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("periodic", [True, False])
def test_as_torch(name: str, length: int, periodic: bool):
    torch: Any = pytest.importorskip("torch")
    found, expected = (getattr(T, name)(length, periodic, dtype=T.float64) for T in (rg, torch))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-7)
    assert getattr(rg, name)(length).dtype == rg.float32


@pytest.mark.oracle
def test_parameters_as_torch():
    torch: Any = pytest.importorskip("torch")
    found, expected = (
        [T.hamming_window(5, True, 0.5, 0.4), T.kaiser_window(6, False, 10.0), T.kaiser_window(6, True, 3.0)]
        for T in (rg, torch)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_refused(name: str):
    window = getattr(rg, name)
    with pytest.raises(RuntimeError, match="non-negative window_length"):
        window(-1)
    with pytest.raises(RuntimeError, match="floating point"):
        window(4, dtype=rg.int64)
    with pytest.raises(TypeError, match="window_length"):
        window(2.5)
    assert window(4, requires_grad=True).requires_grad


@pytest.mark.oracle
@pytest.mark.parametrize("bounds", [(0, 3), (0, 3, 0.5), (5, 1, -1.5), (2, 2), (0.1, 0.9, 0.2)])
@pytest.mark.filterwarnings("ignore:torch.range")
def test_range_includes_its_end_as_torch(bounds: Any):
    torch: Any = pytest.importorskip("torch")
    found, expected = (T.range(*bounds) for T in (rg, torch))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    assert rg.arange(end=4).tolist() == [0, 1, 2, 3]
    for wrong in ((1, 0), (0, 1, 0), (0, float("inf"))):
        with pytest.raises(RuntimeError):
            rg.range(*wrong)
    with pytest.raises(TypeError, match="end"):
        rg.arange()
