"""Clipping of gradients, as PyTorch does it, eagerly and in a session."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in

CASES = [
    ("norm", 0.5, 2.0),
    ("norm", 0.5, 1.0),
    ("norm", 2.0, float("inf")),
    ("norm", 100.0, 2.0),
    ("value", 0.75, 0.0),
]


def clipped(T: Any, kind: str, limit: float, order: float) -> list[Any]:
    """The gradients of three parameters, one of which has none, after two rounds, and the norms."""
    w = T.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=T.float64, requires_grad=True)
    b = T.tensor([0.25, 1.0], requires_grad=True)
    idle = T.tensor([1.0], requires_grad=True)
    found: list[Any] = []
    for _ in range(2):
        ((w**2).sum() + (b**3).sum()).backward()
        if kind == "norm":
            found.append(T.nn.utils.clip_grad_norm_([w, b, idle], limit, order))
        else:
            T.nn.utils.clip_grad_value_([w, b, idle], limit)
        found += [w.grad.clone(), b.grad.clone()]
    return [np.array(one.detach().numpy()) for one in found]


@pytest.mark.parametrize("inside", [False, True], ids=["eagerly", "in a session"])
@pytest.mark.parametrize(("kind", "limit", "order"), CASES)
@pytest.mark.oracle
def test_gradients_are_clipped_as_by_torch(kind: str, limit: float, order: float, inside: bool) -> None:
    torch = pytest.importorskip("torch")
    expected = clipped(torch, kind, limit, order)
    with rg.Session() if inside else nullcontext():
        found = clipped(rg, kind, limit, order)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_one_tensor_may_be_given_and_nothing_to_clip_has_norm_zero() -> None:
    w: Any = rg.tensor([3.0, 4.0], requires_grad=True)
    assert rg.nn.utils.clip_grad_norm_(w, 1.0).item() == 0.0
    (w * w / 2).sum().backward()
    assert rg.nn.utils.clip_grad_norm_(w, 1.0).item() == 5.0
    assert np.allclose(w.grad.tolist(), [0.6, 0.8])


def test_a_norm_that_is_not_finite_is_an_error_where_that_is_asked_for() -> None:
    w: Any = rg.tensor([3.0, 4.0], requires_grad=True)
    w.grad = rg.tensor([float("inf"), 1.0])
    with pytest.raises(RuntimeError, match="non-finite, so it cannot be clipped"):
        rg.nn.utils.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)
    assert w.grad.tolist() == [float("inf"), 1.0]


def test_in_a_session_nothing_is_waited_for() -> None:
    w: Any = rg.tensor([3.0, 4.0], requires_grad=True)
    with rg.Session() as session:
        (w * w / 2).sum().backward()
        before = session.last_run
        total = rg.nn.utils.clip_grad_norm_([w], 1.0)
        assert "pending" in repr(total)
        assert session.last_run is before
        assert total.item() == 5.0


@pytest.mark.parametrize("name", ["Conv2d", "LSTM", "init"])
def test_what_is_missing_says_what_there_is_instead(name: str) -> None:
    with pytest.raises(AttributeError, match=f"'{name}': .*(tensor|functional)"):
        getattr(rg.nn, name)


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "session"])
def test_gradients_on_several_devices_are_clipped_by_the_norm_of_all(inside: bool) -> None:
    with use_stand_in(2), rg.Session(workers=1) if inside else nullcontext():
        params = [rg.ones(2, dtype=rg.float64, device=place).requires_grad_() for place in ("cuda:1", "cpu", "cuda:0")]
        for factor, one in enumerate(params, start=1):
            (one.sum() * factor).backward()
        total = rg.nn.utils.clip_grad_norm_(params, 1.0)
        norm = np.sqrt(2.0 * (1.0 + 4.0 + 9.0))
        assert str(total.device) == "cuda:1"
        assert total.item() == pytest.approx(norm)
        for factor, one in enumerate(params, start=1):
            gradient: Any = one.grad
            assert gradient.device == one.device
            assert gradient.tolist() == pytest.approx([factor / norm] * 2, rel=1e-5)
