"""Samples of distributions: their moments, the same in a session and under vmap, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

N = 20_000


def weights() -> rg.Tensor:
    return rg.tensor([0.0, 1.0, 3.0, 0.0, 4.0])


DRAWS: dict[str, tuple[Any, float, float]] = {
    # what draws N numbers, their mean, their standard deviation
    "bernoulli": (lambda: rg.bernoulli(rg.full((N,), 0.3)), 0.3, 0.458),
    "bernoulli-p": (lambda: rg.bernoulli(rg.zeros(N), 0.8), 0.8, 0.4),
    "bernoulli_": (lambda: rg.zeros(N).bernoulli_(0.25), 0.25, 0.433),
    "bernoulli_-tensor": (lambda: rg.zeros(N, dtype=rg.int64).bernoulli_(rg.full((N,), 0.25)), 0.25, 0.433),
    "normal": (lambda: rg.normal(2.0, 3.0, (N,)), 2.0, 3.0),
    "normal-tensors": (lambda: rg.normal(rg.full((N,), -1.0), rg.tensor([0.5])), -1.0, 0.5),
    "exponential_": (lambda: rg.zeros(N).exponential_(2.0), 0.5, 0.5),
    "geometric_": (lambda: rg.zeros(N).geometric_(0.4), 2.5, 1.936),
    "log_normal_": (lambda: rg.zeros(N).log_normal_(0.1, 0.5), 1.252, 0.667),
    "random_": (lambda: rg.zeros(N, dtype=rg.int64).random_(3, 9), 5.5, 1.708),
    "multinomial": (lambda: rg.multinomial(weights(), N, replacement=True), 2.875, 1.166),
}


@pytest.mark.parametrize("name", DRAWS)
def test_moments(name: str):
    draw, mean, deviation = DRAWS[name]
    rg.manual_seed(0)
    got = draw().numpy()
    assert got.shape == (N,)
    assert abs(got.mean() - mean) < 5 * deviation / N**0.5
    assert abs(got.std() - deviation) < 0.05 * deviation


@pytest.mark.parametrize("name", [*DRAWS, "cauchy_"])
def test_a_session_draws_the_same_numbers(name: str):
    draw = DRAWS[name][0] if name in DRAWS else lambda: rg.zeros(N).cauchy_(1.0, 2.0)
    rg.manual_seed(7)
    eager = draw().numpy()
    rg.manual_seed(7)
    with rg.Session():
        np.testing.assert_array_equal(draw().numpy(), eager)


def test_the_median_of_cauchys_distribution():
    rg.manual_seed(0)
    assert abs(np.median(rg.zeros(N).cauchy_(1.0, 0.5).numpy()) - 1) < 0.05


def test_without_replacement_no_index_comes_twice_and_none_without_weight():
    rg.manual_seed(1)
    got = rg.multinomial(weights().expand(500, 5), 3).numpy()
    assert all(set(row) == {1, 2, 4} for row in got.tolist())
    assert np.mean(got[:, 0] == 4) == pytest.approx(0.5, abs=0.08)


def test_under_vmap_examples_differ_or_not_as_it_is_said():
    p = rg.full((4, 50), 0.5)
    different = rg.vmap(rg.bernoulli, randomness="different")(p).numpy()
    same = rg.vmap(rg.bernoulli, randomness="same")(p).numpy()
    assert len({row.tobytes() for row in different}) == 4
    assert len({row.tobytes() for row in same}) == 1
    with pytest.raises(RuntimeError, match="randomness error mode"):
        rg.vmap(rg.bernoulli)(p)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rg.bernoulli(rg.tensor([1.5])), "p_in"),
        (lambda: rg.bernoulli(rg.tensor([1])), "not implemented for int64"),
        (lambda: rg.normal(0.0, -1.0, (2,)), "std >= 0"),
        (lambda: rg.multinomial(rg.tensor([0.0, 1.0]), 2), "not enough"),
        (lambda: rg.multinomial(rg.tensor([-1.0, 1.0]), 1), "element < 0"),
        (lambda: rg.multinomial(rg.ones(2), 3), "without replacement"),
        (lambda: rg.zeros(2).exponential_(0.0), "lambda > 0"),
        (lambda: rg.zeros(2, dtype=rg.int64).exponential_(), "not implemented for int64"),
        (lambda: rg.zeros(2).geometric_(1.0), "p to be in"),
        (lambda: rg.zeros(2).random_(3, 3), "less than 'to'"),
    ],
)
def test_refusals(call: Any, message: str):
    with pytest.raises(RuntimeError, match=message):
        call()
