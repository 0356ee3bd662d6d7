"""A thousand training steps on Ray leave nothing behind, under every policy; nor does a budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.functions.saved_policy import POLICIES
from raygrad.client.session.session import executor_of

from .leaks import ARRAY, SIZE, Layer, assert_nothing_is_left, trained


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_thousand_steps_on_ray_leave_nothing_behind(ray_started: Any, policy: str) -> None:
    with rg.Session("ray", workers=1, saved=policy) as session:
        assert_nothing_is_left(*trained(session))
        executor = executor_of(session)
    assert executor.stored_bytes() == 0


@pytest.mark.ray
def test_a_budget_is_kept_on_ray_with_the_same_gradients(ray_started: Any) -> None:
    found: list[bytes] = []
    for memory in (None, 20 * ARRAY):
        generator = np.random.default_rng(0)
        with rg.Session("ray", workers=2, memory=memory) as session:
            w = rg.tensor(generator.standard_normal(SIZE) * 0.1, requires_grad=True)
            y: Any = rg.tensor(generator.standard_normal(SIZE), requires_grad=True)
            for number in range(32):
                with rg.place(worker=number // 16):
                    y = Layer.apply(y, w) * 0.9
            y.sum().backward()
            gradient: Any = w.grad
            found.append(gradient.numpy().tobytes())
            assert session.last_run is not None
            names = session.last_run.report().graph.names
            assert ("spill" in names) == (memory is not None)
    assert found[0] == found[1]
