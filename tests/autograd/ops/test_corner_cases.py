"""Corner cases of the catalogue's functions, each the same program under raygrad and torch (`T`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def test_svd_returns_square_factors_by_default(T: Any) -> None:
    a = T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]], requires_grad=True)
    u, s, vh = T.linalg.svd(a)
    assert [tuple(part.shape) for part in (u, s, vh)] == [(2, 2), (2,), (3, 3)]
    assert T.allclose(u @ T.diag(s) @ vh[:2], a, atol=1e-5)
    (u.abs().sum() + s.sum() + vh[:2].abs().sum()).backward()
    assert a.grad.isfinite().all()
    assert [tuple(part.shape) for part in T.linalg.svd(a, full_matrices=False)] == [(2, 2), (2,), (2, 3)]


def test_vander_of_linalg_counts_upwards_and_takes_batches(T: Any) -> None:
    assert T.linalg.vander(T.tensor([1, 2, 3])).tolist() == [[1, 1, 1], [1, 2, 4], [1, 3, 9]]
    assert tuple(T.linalg.vander(T.ones(2, 3), N=4).shape) == (2, 3, 4)
    with pytest.raises(RuntimeError):
        T.linalg.vander(T.tensor([1, 2, 3]), N=1)
    assert T.vander(T.tensor([1, 2, 3])).tolist() == [[1, 1, 1], [4, 2, 1], [9, 3, 1]]


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "baddbmm", "addbmm"])
def test_nothing_of_the_input_is_read_with_a_beta_of_zero(T: Any, name: str) -> None:
    batch = T.ones(2, 2, 2)
    factors = {
        "addmm": (batch[0], batch[1]),
        "addmv": (batch[0], batch[0, 0]),
        "addr": (batch[0, 0], batch[0, 0]),
        "baddbmm": (batch, batch),
        "addbmm": (batch, batch),
    }[name]
    out = getattr(T, name)(T.full((2,), float("nan")), *factors, beta=0)
    assert not out.isnan().any()
    with pytest.raises(RuntimeError):
        getattr(T, name)(T.ones(3, 3, 3, 3), *factors)


def test_cosine_similarity_of_broadcast_vectors_is_at_most_one(T: Any) -> None:
    assert T.nn.functional.cosine_similarity(T.ones(2, 1), T.ones(2, 3)).tolist() == pytest.approx([1.0, 1.0])


def test_ranges_of_integers_are_those_of_their_rounded_bounds(T: Any) -> None:
    assert T.linspace(0, 10, 7, dtype=T.int64).tolist() == [0, 1, 3, 5, 6, 8, 10]
    assert T.linspace(-3, 9, 8, dtype=T.int64).tolist() == [-3, -1, 0, 2, 3, 5, 7, 9]
    assert T.arange(0.5, 5.5, dtype=T.int64).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="step"):
        T.arange(0, 5, 0.5, dtype=T.int64)


def test_linspace_counts_from_the_nearer_end(T: Any) -> None:
    assert T.linspace(0, 1, 11)[7].item() == np.float32(1) - np.float32(0.1) * np.float32(3)
    assert T.linspace(1 + 1j, 3, 3).tolist() == [1 + 1j, 2 + 0.5j, 3]
    assert T.linspace(3, 4, 1).tolist() == [3.0]
    assert T.linspace(3, 4, 0).tolist() == []
    with pytest.raises(RuntimeError):
        T.linspace(0, 1, -1)


def test_circular_padding_takes_away_before_it_goes_round(T: Any) -> None:
    x = T.arange(8.0).reshape(1, 8)
    pad = T.nn.functional.pad
    assert pad(x, (2, -3), mode="circular").tolist() == [[3.0, 4.0, 0.0, 1.0, 2.0, 3.0, 4.0]]
    assert pad(x, (-2, 3), mode="circular").tolist() == [[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 2.0, 3.0, 4.0]]


def test_a_transposed_convolution_padded_by_a_step_has_gradients(T: Any) -> None:
    x = T.ones(1, 2, 4, requires_grad=True)
    w = T.ones(2, 1, 3, requires_grad=True)
    out = T.nn.functional.conv_transpose1d(x, w, dilation=3, output_padding=2)
    grads = T.autograd.grad((out**2).sum(), [x, w], create_graph=True)
    assert grads[0].tolist() == [[[20.0, 12.0, 12.0, 20.0]] * 2]
    second = T.autograd.grad(grads[0].sum() + grads[1].sum(), [x, w])
    assert second[0].tolist() == [[[60.0, 36.0, 36.0, 60.0]] * 2]
