"""Factors of low rank by random projections, and arguments of factorisations by their older names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

from ..check import compare_at

LOW = np.random.default_rng(0).normal(size=(2, 8, 3)) @ np.random.default_rng(1).normal(size=(2, 3, 6))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("q", [3, 5])
def test_what_is_of_low_rank_is_factored_exactly(wide: bool, q: int):
    rg.manual_seed(0)
    given = LOW.swapaxes(-1, -2) if wide else LOW
    u, s, v = rg.svd_lowrank(rg.tensor(given), q=q)
    assert u.shape == (*given.shape[:-1], q)
    assert v.shape == (2, given.shape[-1], q)
    np.testing.assert_allclose((u * s[:, None] @ v.mT).numpy(), given, atol=1e-10)
    np.testing.assert_allclose(s[:, :3].numpy(), np.linalg.svd(given)[1][:, :3], rtol=1e-8)


def test_principal_components_are_of_centred_samples():
    rg.manual_seed(0)
    found = rg.pca_lowrank(rg.tensor(LOW[0] + 5.0), q=3).S
    centred = LOW[0] - LOW[0].mean(0)
    np.testing.assert_allclose(found.numpy(), np.linalg.svd(centred)[1][:3], rtol=1e-8)
    plain = rg.pca_lowrank(rg.tensor(LOW[0]), center=False).S
    np.testing.assert_allclose(plain[:3].numpy(), np.linalg.svd(LOW[0])[1][:3], rtol=1e-8)


def test_the_gradient_of_the_values_is_that_of_svd():
    rg.manual_seed(0)
    x = rg.tensor(LOW[0], requires_grad=True)
    (mine,) = rg.autograd.grad(rg.svd_lowrank(x, q=3)[1].sum(), x)
    u, _, vh = np.linalg.svd(LOW[0], full_matrices=False)
    np.testing.assert_allclose(mine.numpy(), u[:, :3] @ vh[:3], atol=1e-6)


def test_refused():
    x = rg.tensor(LOW[0])
    for options in ({"q": 7}, {"q": -1}, {"niter": -1}):
        with pytest.raises(RuntimeError, match="non-negative integer"):
            rg.svd_lowrank(x, **options)
    for function in (rg.linalg.svd, rg.linalg.svdvals):
        with pytest.raises(RuntimeError, match="driver"):
            function(x, driver="gesvd")


@pytest.mark.oracle
def test_older_names_of_tolerances_as_torch():
    torch: Any = pytest.importorskip("torch")
    point = np.diag([3.0, 1.0, 0.2])
    compare_at(lambda T, x: T.linalg.pinv(x, rcond=0.2), point, torch, order=1)
    compare_at(lambda T, x: T.linalg.pinv(x, 0.2, True), point, torch, order=0)
    for T in (torch, rg):
        x = T.tensor(point)
        assert T.linalg.matrix_rank(x, tol=0.5).item() == 2
        assert T.linalg.matrix_rank(x, 0.1, True).item() == 3
