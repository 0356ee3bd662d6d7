"""What Adam does besides what all optimisers do: its first steps, and what it keeps."""

from __future__ import annotations

import numpy as np

import raygrad as rg


def test_the_first_step_is_as_long_as_the_learning_rate():
    p = rg.tensor([1.0, 1.0], dtype=rg.float64, requires_grad=True)
    optimizer = rg.optim.Adam([p], lr=0.125, eps=0.0)
    p.grad = rg.tensor([1e-3, -1e3], dtype=rg.float64)
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), [0.875, 1.125], rtol=1e-12)
    assert optimizer.state[p]["step"].item() == 1.0


def test_a_float32_parameter_stays_float32():
    p = rg.tensor([1.0, 1.0], requires_grad=True)
    optimizer = rg.optim.Adam([p])
    p.grad = rg.tensor([1.0, 2.0])
    optimizer.step()
    assert p.dtype == np.float32
    assert {name: entry.dtype for name, entry in optimizer.state[p].items()} == {
        "step": np.float64,
        "exp_avg": np.float32,
        "exp_avg_sq": np.float32,
    }
