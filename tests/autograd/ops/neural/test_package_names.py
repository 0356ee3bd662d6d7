"""Functions for neural networks that are names of the package, and in-place ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

from ..check import compare_at

X = np.random.default_rng(0).normal(size=(2, 4, 6))

CALLS = """
    selu(x)|celu(x, 0.5)|prelu(x, T.ones(4, dtype=T.float64) / 4)|threshold(x, 0.0, 1.0)|hardshrink(x, 0.1)|rrelu(x)
    layer_norm(x, (6,))|layer_norm(x, [6], x[0, 0], x[0, 1], 1e-3)|rms_norm(x, (6,))|group_norm(x, 2)
    batch_norm(x, x[0, :, 0], x[0, :, 1], None, None, True, 0.1, 1e-5, False)
    instance_norm(x, x[0, :, 0], x[0, :, 1], None, None, True, 0.1, 1e-5, False)
    conv1d(x, x[:, :, :3])|conv1d(x, x[:, :, :3], x[:, 0, 0], 1, 1)|conv_transpose1d(x, x[:1, :, :2].transpose(0, 1))
    conv2d(x[None], x[:, :2, :2, None].transpose(1, 3)[:, :1].expand(2, 2, 2, 2))
    avg_pool1d(x, 2)|max_pool1d(x, 2)|max_pool1d_with_indices(x, 2)[0]|max_pool2d(x, 2)|max_pool3d(x[None], 2)
    adaptive_avg_pool1d(x, 3)|adaptive_max_pool1d(x, 3)[0]
    pixel_shuffle(x[None].transpose(1, 2), 2)|pixel_unshuffle(x, 2)|channel_shuffle(x, 2)
    cosine_similarity(x, x * x)|pairwise_distance(x, x * x)|pdist(x[0])|embedding(x[0], T.tensor([0, 2]), 2)
    dropout_(x * 1, 0.0, True)|alpha_dropout(x, 0.0, True)|celu_(x * 1)|selu_(x * 1)|threshold_(x * 1, 0.0, 1.0)
    nn.functional.relu_(x * 1)|nn.functional.leaky_relu_(x * 1, 0.1)|nn.functional.elu_(x * 1, 0.5)
    nn.functional.hardtanh_(x * 1)|nn.functional.rrelu_(x * 1)
"""


@pytest.mark.oracle
@pytest.mark.parametrize("call", [call.strip() for line in CALLS.strip().splitlines() for call in line.split("|")])
def test_names_of_the_package_as_torch(call: str):
    torch: Any = pytest.importorskip("torch")
    compare_at(lambda T, x: eval(f"T.{call}", {"T": T, "x": x}), X, torch, order=1)


def test_in_place_ones_write_to_their_argument():
    for name in "celu_ selu_ relu_ elu_ leaky_relu_ hardtanh_".split():
        x = rg.tensor([-1.0, 2.0])
        function = getattr(rg.nn.functional, name)
        expected = getattr(rg.nn.functional, name[:-1])(x)
        assert function(x) is x
        assert rg.equal(x, expected), name
        assert function.__name__ == name
        with pytest.raises(RuntimeError, match="leaf"):
            function(rg.tensor([1.0], requires_grad=True))
        with pytest.raises(TypeError, match="inplace"):
            function(x, inplace=False)


def test_gumbel_softmax_draws_categories_by_their_weights():
    rg.manual_seed(0)
    weights = rg.tensor([0.2, 0.5, 0.3]).log().expand(4000, 3)
    hard = rg.nn.functional.gumbel_softmax(weights, hard=True)
    assert set(hard.unique().numpy().tolist()) == {0.0, 1.0}
    assert np.allclose(hard.mean(0).numpy(), [0.2, 0.5, 0.3], atol=0.03)
    soft = rg.nn.functional.gumbel_softmax(weights, tau=0.5)
    assert np.allclose(soft.sum(-1).numpy(), 1, atol=1e-5)


def test_gumbel_softmax_that_is_hard_has_the_gradient_of_the_soft_one():
    grads: list[Any] = []
    for hard in (False, True):
        rg.manual_seed(1)
        logits = rg.tensor([[0.1, 0.2, 0.7]], requires_grad=True)
        (rg.nn.functional.gumbel_softmax(logits, hard=hard) * rg.tensor([1.0, 2.0, 3.0])).sum().backward()
        assert logits.grad is not None
        grads.append(logits.grad.numpy())
    assert np.allclose(grads[0], grads[1])
    assert np.abs(grads[0]).max() > 0
    with pytest.raises(RuntimeError, match="temperature"):
        rg.nn.functional.gumbel_softmax(rg.zeros(2), tau=0.0)
