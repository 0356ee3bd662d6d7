"""Adam: its options, against torch over several steps, and in a session equal to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg

from .training import check_against_torch, check_bits_of_a_session

OPTIONS = [
    {},
    {"lr": 0.05, "betas": (0.8, 0.95)},
    {"lr": 0.05, "eps": 1e-3, "weight_decay": 0.1},
    {"lr": 0.05, "amsgrad": True},
    {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1, "maximize": True},
]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -0.1}, "Invalid learning rate: -0.1"),
        ({"eps": -1e-8}, "Invalid epsilon value: -1e-08"),
        ({"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ({"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1: -0.1"),
        ({"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        rg.optim.Adam([rg.zeros(2, requires_grad=True)], **options)


def test_complex_parameters_are_refused():
    with pytest.raises(ValueError, match="real parameters"):
        rg.optim.Adam([rg.zeros(2, dtype=rg.complex128, requires_grad=True)])


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


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("strict", [False, True], ids=["by reference", "strict"])
def test_a_session_gives_the_same_bits(options, strict):
    check_bits_of_a_session("Adam", options, strict)


@pytest.mark.oracle
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_agree_with_torch(options):
    check_against_torch("Adam", options)
