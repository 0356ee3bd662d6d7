"""A training that every optimiser is put through, and what has to hold of it. Written once for both libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

MATRIX = np.random.default_rng(0).standard_normal((3, 4))
VECTOR = np.random.default_rng(1).standard_normal(4)


def trained(lib: Any, optimizer_class: Any, options: dict[str, Any], steps: int = 6) -> tuple[Any, Any]:
    """Train a matrix and a vector; in one step of three the vector has no gradient."""
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


def check_bits_of_a_session(name: str, options: dict[str, Any], strict: bool) -> None:
    """Check that a session moves parameters as eager steps do, to the last bit."""
    optimizer_class = getattr(rg.optim, name)
    eager = trained(rg, optimizer_class, options)
    with rg.Session(strict=strict):
        recorded = trained(rg, optimizer_class, options)
    for a, b in zip(eager, recorded, strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


def check_against_torch(name: str, options: dict[str, Any]) -> None:
    """Check that torch's optimiser of the name moves parameters alike."""
    torch: Any = pytest.importorskip("torch")
    ours = trained(rg, getattr(rg.optim, name), options)
    theirs = trained(torch, getattr(torch.optim, name), options)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)


def check_state_is_taken_over(name: str, options: dict[str, Any]) -> None:
    """Check that an optimiser with the saved state of another goes on as that one does."""
    optimizer_class = getattr(rg.optim, name)
    p = rg.from_numpy(MATRIX.copy()).requires_grad_()
    optimizer = optimizer_class([p], **options)
    for _ in range(2):
        p.grad = rg.ones(3, 4, dtype=rg.float64)
        optimizer.step()
    other = optimizer_class([p.detach().clone().requires_grad_()])
    other.load_state_dict(optimizer.state_dict())
    q = other.param_groups[0]["params"][0]
    for one, its in ((p, optimizer), (q, other)):
        one.grad = rg.ones(3, 4, dtype=rg.float64)
        its.step()
    assert p.tolist() == q.tolist()


def check_single_precision_stays(name: str, options: dict[str, Any]) -> None:
    """Check that a float32 parameter stays one, and that what is kept for it is, but for the number of steps."""
    p = rg.tensor([1.0, 1.0], requires_grad=True)
    optimizer = getattr(rg.optim, name)([p], **options)
    p.grad = rg.tensor([1.0, 2.0])
    optimizer.step()
    assert p.dtype == np.float32
    kept = {entry.dtype for key, entry in optimizer.state[p].items() if key != "step"}
    assert kept == (set() if name == "SGD" and not options.get("momentum") else {np.dtype(np.float32)})
