"""What shapes, sizes and dimensions are refused, with PyTorch's type of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.dispatch.shape_errors import fits, is_at_hand

LIBRARIES = [
    pytest.param("raygrad", id="raygrad"),
    pytest.param("torch", id="torch", marks=pytest.mark.oracle),
]


@pytest.fixture(params=LIBRARIES)
def T(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


REFUSED: dict[str, tuple[type[Exception], Callable[[Any, Any], Any]]] = {
    "too few dimensions of a triangle": (RuntimeError, lambda T, F: T.tril(T.ones(3))),
    "a split of a number": (RuntimeError, lambda T, F: T.tensor_split(T.tensor(2.0), 2)),
    "a split of a vector in rows": (RuntimeError, lambda T, F: T.vsplit(T.ones(4), 2)),
    "a split in no part": (RuntimeError, lambda T, F: T.hsplit(T.ones(4), 0)),
    "a part of a number": (RuntimeError, lambda T, F: T.tensor(2.0).narrow(0, 0, 1)),
    "a part from a fraction on": (RuntimeError, lambda T, F: T.ones(3).narrow(0, T.tensor(0.5), 1)),
    "a dimension moved twice": (RuntimeError, lambda T, F: T.movedim(T.ones(2, 3, 4), (0, -3), (0, 1))),
    "two dimensions moved to one place": (RuntimeError, lambda T, F: T.movedim(T.ones(2, 3), (0, 1), (0, -2))),
    "nothing to stack": (RuntimeError, lambda T, F: T.stack([])),
    "nothing to stack in rows": (RuntimeError, lambda T, F: T.vstack([])),
    "nothing to stack in depth": (RuntimeError, lambda T, F: T.dstack([])),
    "a negative extent": (RuntimeError, lambda T, F: T.eye(2, -1)),
    "steps of a fraction": (TypeError, lambda T, F: T.linspace(0, 1, 2.5)),
    "no vectors of three": (RuntimeError, lambda T, F: T.linalg.cross(T.ones(2, 3), T.ones(2, 1))),
    "a table of numbers": (RuntimeError, lambda T, F: F.embedding(T.tensor([0]), T.ones(3))),
    "a mask of numbers": (RuntimeError, lambda T, F: T.ones(2).masked_scatter(T.ones(2), T.ones(2))),
    "too few for a mask": (
        RuntimeError,
        lambda T, F: T.ones(2).masked_scatter(T.tensor([True, True]), T.ones(1)),
    ),
    "several values for a mask": (RuntimeError, lambda T, F: T.ones(2).masked_fill(T.tensor([True, False]), T.ones(1))),
    "a complex value for real ones": (RuntimeError, lambda T, F: T.ones(2).masked_fill(T.tensor([True, False]), 1j)),
    "a value beyond a dtype": (
        RuntimeError,
        lambda T, F: T.ones(2, dtype=T.uint8).masked_fill(T.tensor([True, False]), 300),
    ),
    "sources of another dtype": (
        RuntimeError,
        lambda T, F: T.ones(2).scatter(0, T.tensor([0]), T.ones(1, dtype=T.float64)),
    ),
    "a negative tolerance": (RuntimeError, lambda T, F: T.isclose(T.ones(2), T.ones(2), rtol=-0.1)),
    "weights of too many": (RuntimeError, lambda T, F: T.cov(T.ones(2, 3), fweights=T.tensor([1, 1]))),
    "negative weights": (RuntimeError, lambda T, F: T.cov(T.ones(2, 3), aweights=T.tensor([1.0, -1.0, 1.0]))),
    "no channels to pool": (RuntimeError, lambda T, F: F.max_pool1d(T.ones(2, 0, 10), 2)),
    "too few extents": (RuntimeError, lambda T, F: F.adaptive_avg_pool2d(T.ones(1, 2, 3, 3), ())),
    "a negative output size": (RuntimeError, lambda T, F: F.adaptive_avg_pool2d(T.ones(1, 2, 3, 3), (-1, 2))),
    "too few dimensions to pool": (ValueError, lambda T, F: F.adaptive_avg_pool2d(T.ones(3, 3), (2, 2))),
    "a stride of none": (RuntimeError, lambda T, F: F.conv1d(T.ones(1, 1, 4), T.ones(1, 1, 2), stride=0)),
    "a dilation of none": (RuntimeError, lambda T, F: F.conv2d(T.ones(1, 1, 4, 4), T.ones(1, 1, 2, 2), dilation=0)),
    "a negative border": (RuntimeError, lambda T, F: F.conv_transpose1d(T.ones(1, 1, 4), T.ones(1, 1, 2), padding=-1)),
    "no groups": (RuntimeError, lambda T, F: F.conv1d(T.ones(1, 1, 4), T.ones(1, 1, 2), groups=0)),
    "a bias of another dtype": (
        RuntimeError,
        lambda T, F: F.conv1d(T.ones(1, 1, 4), T.ones(1, 1, 2), T.ones(1, dtype=T.float64)),
    ),
    "a bias of another extent": (RuntimeError, lambda T, F: F.conv1d(T.ones(1, 1, 4), T.ones(1, 1, 2), T.ones(3))),
    "an unknown approximation": (RuntimeError, lambda T, F: F.gelu(T.ones(2), approximate="none at all")),
    "bounds the wrong way round": (RuntimeError, lambda T, F: F.rrelu(T.ones(2), 0.5, 0.2)),
    "no margin": (ValueError, lambda T, F: F.triplet_margin_loss(T.ones(1, 2), T.ones(1, 2), T.ones(1, 2), margin=0)),
    "variances of another shape": (ValueError, lambda T, F: F.gaussian_nll_loss(T.ones(2, 3), T.ones(2, 3), T.ones(3))),
    "an index of fractions": (RuntimeError, lambda T, F: T.gather(T.ones(2), 0, T.tensor([0.0]))),
    "slices named by fractions": (RuntimeError, lambda T, F: T.index_select(T.ones(2), 0, T.tensor([0.0]))),
    "slices added of another dtype": (
        RuntimeError,
        lambda T, F: T.index_add(T.ones(2), 0, T.tensor([0]), T.ones(1, dtype=T.float64)),
    ),
    "a sum with a product of another dtype": (
        RuntimeError,
        lambda T, F: T.addmm(T.ones(2, 2, dtype=T.float64), T.ones(2, 2), T.ones(2, 2)),
    ),
    "systems of two dtypes": (
        RuntimeError,
        lambda T, F: T.linalg.solve(T.ones(2, 2), T.ones(2, 1, dtype=T.float64)),
    ),
    "a grid of two dtypes": (
        RuntimeError,
        lambda T, F: T.meshgrid(T.ones(2), T.ones(2, dtype=T.float64), indexing="ij"),
    ),
    "a slice of another shape": (RuntimeError, lambda T, F: T.select_scatter(T.ones(2, 3), T.ones(1), 0, 0)),
    "a part of another shape": (RuntimeError, lambda T, F: T.slice_scatter(T.ones(3), T.ones(1), 0, 0, 2)),
    "a diagonal of another shape": (RuntimeError, lambda T, F: T.diagonal_scatter(T.ones(2, 2), T.ones(1))),
    "half a diagonal": (TypeError, lambda T, F: T.diagonal(T.ones(2, 2), 0.5)),
    "half an element": (TypeError, lambda T, F: T.topk(T.ones(2), 0.5)),
    "half a derivative": (TypeError, lambda T, F: T.polygamma(0.5, T.ones(2))),
    "a row less than none": (RuntimeError, lambda T, F: T.tril_indices(-1, 2)),
    "less than no repeat": (RuntimeError, lambda T, F: T.ones(2).repeat(-1)),
    "blocks of three dimensions": (RuntimeError, lambda T, F: T.block_diag(T.ones(1, 1, 1))),
    "no number to fill with": (TypeError, lambda T, F: T.full((2,), "a")),
    "no number to begin with": (TypeError, lambda T, F: T.linspace(None, 1, 2)),
    "integers from none": (RuntimeError, lambda T, F: T.randint(0, (2,))),
    "no windows": (RuntimeError, lambda T, F: F.unfold(T.ones(1, 1, 3, 3), 2, stride=0)),
    "pixels spread over none": (RuntimeError, lambda T, F: F.pixel_shuffle(T.ones(1, 4, 2, 2), 0)),
    "scales of another shape": (RuntimeError, lambda T, F: F.layer_norm(T.ones(2, 3), (3,), T.ones(2))),
    "statistics of other channels": (RuntimeError, lambda T, F: F.batch_norm(T.ones(2, 3), T.ones(2), T.ones(2))),
    "targets of another shape": (ValueError, lambda T, F: F.binary_cross_entropy(T.ones(2), T.ones(3))),
    "targets of another batch": (ValueError, lambda T, F: F.cross_entropy(T.ones(2, 3), T.tensor([0]))),
    "weights of other classes": (RuntimeError, lambda T, F: F.nll_loss(T.ones(2, 3), T.tensor([0, 1]), T.ones(2))),
    "sizes of other dimensions": (ValueError, lambda T, F: F.interpolate(T.ones(1, 1, 4), size=(2, 2))),
    "negative variances": (ValueError, lambda T, F: F.gaussian_nll_loss(T.ones(2), T.ones(2), -T.ones(2))),
}


@pytest.mark.parametrize("which", REFUSED)
def test_it_is_refused(T: Any, which: str) -> None:
    expected, call = REFUSED[which]
    with pytest.raises(expected):
        call(T, T.nn.functional)


def test_numbers_that_a_dtype_has_fit() -> None:
    assert fits(2.5, np.dtype("int8"))
    assert fits(127, np.dtype("int8"))
    assert not fits(128, np.dtype("int8"))
    assert not fits(float("inf"), np.dtype("int64"))
    assert fits(float("inf"), np.dtype("float32"))
    assert fits(3, np.dtype("bool"))
    assert not fits(1j, np.dtype("float64"))
    assert fits(rg.tensor(2.5), np.dtype("int64"))
    assert not fits(rg.tensor(2.5j), np.dtype("int64"))


def test_numbers_are_at_hand_outside_of_sessions_and_vmap() -> None:
    assert is_at_hand(rg.ones(2))
    assert is_at_hand(np.ones(2))
    seen: list[bool] = []
    rg.vmap(lambda x: (seen.append(is_at_hand(x)), x)[1])(rg.ones(2, 2))
    with rg.Session():
        seen.append(is_at_hand(rg.ones(2) * 2))
    assert seen == [False, False]


def test_what_only_numbers_tell_is_not_asked_in_a_session() -> None:
    with rg.Session():
        weights = rg.ones(3) * -1
        assert rg.cov(rg.ones(2, 3), aweights=weights).shape == (2, 2)
