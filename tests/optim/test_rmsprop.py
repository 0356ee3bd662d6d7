"""RMSprop: its options, against torch over several steps, and in a session equal to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

OPTIONS: list[dict[str, Any]] = [
    {},
    {"lr": 0.05, "alpha": 0.9, "eps": 1e-3},
    {"lr": 0.05, "momentum": 0.9},
    {"lr": 0.05, "centered": True, "weight_decay": 0.1},
    {"lr": 0.05, "centered": True, "momentum": 0.5, "maximize": True},
]
MATRIX = np.random.default_rng(0).standard_normal((3, 4))
VECTOR = np.random.default_rng(1).standard_normal(4)


def trained(lib: Any, optimizer_class: Any, options: dict[str, Any], steps: int = 6) -> tuple[Any, Any]:
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
        ({"alpha": -1.0}, "Invalid alpha value: -1.0"),
        ({"momentum": -1.0}, "Invalid momentum value: -1.0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rg.optim.RMSprop([rg.zeros(2, requires_grad=True)], **options)


def test_complex_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="RMSprop moves real parameters"):
        rg.optim.RMSprop([rg.zeros(2, dtype=rg.complex128, requires_grad=True)])


def test_a_float32_parameter_stays_float32() -> None:
    p = rg.tensor([1.0, 1.0], requires_grad=True)
    optimizer = rg.optim.RMSprop([p])
    p.grad = rg.tensor([1.0, 2.0])
    optimizer.step()
    assert p.dtype == np.float32
    assert {entry.dtype for key, entry in optimizer.state[p].items() if key != "step"} == {np.dtype(np.float32)}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("strict", [False, True], ids=["by reference", "strict"])
def test_a_session_gives_the_same_bits(options: dict[str, Any], strict: bool) -> None:
    eager = trained(rg, rg.optim.RMSprop, options)
    with rg.Session(strict=strict):
        recorded = trained(rg, rg.optim.RMSprop, options)
    for a, b in zip(eager, recorded, strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


def test_the_state_is_taken_over() -> None:
    p = rg.from_numpy(MATRIX.copy()).requires_grad_()
    optimizer = rg.optim.RMSprop([p], **OPTIONS[-1])
    for _ in range(2):
        p.grad = rg.ones(3, 4, dtype=rg.float64)
        optimizer.step()
    other = rg.optim.RMSprop([p.detach().clone().requires_grad_()])
    other.load_state_dict(optimizer.state_dict())
    q = other.param_groups[0]["params"][0]
    for one, its in ((p, optimizer), (q, other)):
        one.grad = rg.ones(3, 4, dtype=rg.float64)
        its.step()
    assert p.tolist() == q.tolist()


@pytest.mark.oracle
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_agree_with_torch(options: dict[str, Any]) -> None:
    torch: Any = pytest.importorskip("torch")
    ours = trained(rg, rg.optim.RMSprop, options)
    theirs = trained(torch, torch.optim.RMSprop, options)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)
