"""Samples of counts: poisson and binomial."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg


def test_poisson_has_the_mean_and_variance_of_its_rate():
    rg.manual_seed(0)
    drawn = rg.poisson(rg.tensor([0.0, 2.0, 400.0]).expand(4000, 3))
    assert drawn.dtype == rg.float32
    np.testing.assert_allclose(drawn.mean(0).numpy(), [0.0, 2.0, 400.0], rtol=0.05)
    np.testing.assert_allclose(drawn.var(0).numpy(), [0.0, 2.0, 400.0], rtol=0.15)


def test_binomial_has_the_mean_and_variance_of_its_trials():
    rg.manual_seed(0)
    drawn = rg.binomial(rg.full((4000, 2), 10.0), rg.tensor([0.3, 1.0]))
    np.testing.assert_allclose(drawn.mean(0).numpy(), [3.0, 10.0], rtol=0.05)
    np.testing.assert_allclose(drawn.var(0).numpy(), [2.1, 0.0], rtol=0.15)


def test_draws_follow_the_seed_and_are_the_same_in_a_session():
    drawn: list[list[float]] = []
    for _ in range(2):
        rg.manual_seed(3)
        drawn.append(
            [*rg.poisson(rg.full((5,), 4.0)).tolist(), *rg.binomial(rg.full((5,), 9.0), rg.tensor(0.5)).tolist()]
        )
    rg.manual_seed(3)
    with rg.Session("local"):
        first, second = rg.poisson(rg.full((5,), 4.0)), rg.binomial(rg.full((5,), 9.0), rg.tensor(0.5))
        drawn.append([*first.tolist(), *second.tolist()])
    assert drawn[0] == drawn[1] == drawn[2]
    assert len(set(drawn[0])) > 1


def test_each_example_under_vmap_draws_for_itself():
    rg.manual_seed(0)
    drawn = rg.vmap(rg.poisson, randomness="different")(rg.full((40, 3), 50.0))
    assert drawn.shape == (40, 3)
    assert len(set(drawn[:, 0].tolist())) > 5


def test_refused():
    with pytest.raises(RuntimeError, match="non-negative"):
        rg.poisson(rg.tensor([-1.0]))
    with pytest.raises(RuntimeError, match="probabilities"):
        rg.binomial(rg.tensor([1.0]), rg.tensor([1.5]))
    with pytest.raises(NotImplementedError):
        rg.poisson(rg.tensor([1]))
