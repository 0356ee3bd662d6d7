"""SGD: its options, against torch over several steps, and in a session equal to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg

OPTIONS = [
    {},
    {"lr": 0.05, "momentum": 0.9},
    {"lr": 0.05, "momentum": 0.9, "dampening": 0.3},
    {"lr": 0.05, "momentum": 0.8, "nesterov": True},
    {"lr": 0.05, "weight_decay": 0.1},
    {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1, "maximize": True},
    {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "maximize": True},
]
MATRIX = np.random.default_rng(0).standard_normal((3, 4))
VECTOR = np.random.default_rng(1).standard_normal(4)


def trained(lib, optimizer_class, options, steps=6):
    """Train a matrix and a vector; in one step of three the vector has no gradient. Written once for both libraries."""
    matrix, vector = (lib.from_numpy(array.copy()).requires_grad_() for array in (MATRIX, VECTOR))
    optimizer = optimizer_class([matrix, vector], **options)
    for step in range(steps):
        optimizer.zero_grad()
        loss = (matrix * matrix).sin().sum()
        if step % 3 != 2:
            loss = loss + ((matrix * vector).sum() * 0.5).tanh() + (vector * vector).sum()
        loss.backward()
        optimizer.step()
    return matrix, vector


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
    eager = trained(rg, rg.optim.SGD, options)
    with rg.Session(strict=strict):
        recorded = trained(rg, rg.optim.SGD, options)
    for a, b in zip(eager, recorded, strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


@pytest.mark.oracle
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_agree_with_torch(options):
    torch = pytest.importorskip("torch")
    ours = trained(rg, rg.optim.SGD, options)
    theirs = trained(torch, torch.optim.SGD, options)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)
