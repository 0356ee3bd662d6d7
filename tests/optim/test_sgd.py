"""SGD: its options, against torch over several steps, and in a session equal to the last bit."""

from __future__ import annotations

import pytest

import raygrad as rg

from .training import check_against_torch, check_bits_of_a_session

OPTIONS = [
    {},
    {"lr": 0.05, "momentum": 0.9},
    {"lr": 0.05, "momentum": 0.9, "dampening": 0.3},
    {"lr": 0.05, "momentum": 0.8, "nesterov": True},
    {"lr": 0.05, "weight_decay": 0.1},
    {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1, "maximize": True},
    {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "maximize": True},
]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -0.1}, "Invalid learning rate: -0.1"),
        ({"momentum": -1}, "Invalid momentum value: -1"),
        ({"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
        ({"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        (
            {"nesterov": True, "momentum": 0.9, "dampening": 0.1},
            "Nesterov momentum requires a momentum and zero dampening",
        ),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        rg.optim.SGD([rg.zeros(2, requires_grad=True)], **options)


def test_momentum_starts_with_the_whole_first_gradient():
    p = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.SGD([p], lr=0.5, momentum=0.5, dampening=0.5)
    p.grad = rg.tensor([1.0])
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].tolist() == [1.0]
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].tolist() == [1.0]
    assert p.tolist() == [0.0]


def test_the_momentum_is_not_the_gradient_itself():
    p = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.SGD([p], lr=0.5, momentum=0.5)
    p.grad = rg.tensor([1.0])
    optimizer.step()
    optimizer.step()
    assert p.grad.tolist() == [1.0]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("strict", [False, True], ids=["by reference", "strict"])
def test_a_session_gives_the_same_bits(options, strict):
    check_bits_of_a_session("SGD", options, strict)


@pytest.mark.oracle
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_agree_with_torch(options):
    check_against_torch("SGD", options)
