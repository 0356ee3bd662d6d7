"""Backward passes whose gradients are batched."""

from __future__ import annotations

import numpy as np

import raygrad as rg

from ..vmap.agree import agree, leaf, values


def slope(x):
    x = leaf(x)
    y = x * x
    (g,) = rg.autograd.grad((y * x + y).sum(), x)  # y is used twice: its gradients are added
    return g


def test_gradients_inside_are_those_of_each_example():
    agree(slope, values(3, 4))


def test_hooks_see_the_gradient_of_an_example():
    seen: list[tuple[int, ...]] = []

    def hooked(x):
        x = leaf(x)
        y = x * 2
        y.register_hook(lambda g: seen.append(g.shape) or g * 10)
        (g,) = rg.autograd.grad((y * x).sum(), x)
        return g

    out = rg.vmap(hooked)(rg.ones(3, 4))
    np.testing.assert_array_equal(out.numpy(), np.full((3, 4), 22.0))
    assert seen == [(4,)]


def test_second_derivatives_inside():
    def second(x):
        x = leaf(x)
        (g,) = rg.autograd.grad((x**3).sum(), x, create_graph=True)
        (h,) = rg.autograd.grad((g * g).sum(), x)
        return h

    agree(second, values(3, 4))


def test_captured_values_keep_their_place_outside():
    w = rg.tensor(values(4), requires_grad=True)
    x = rg.tensor(values(3, 4))

    def inside(t):
        t = leaf(t)
        (g,) = rg.autograd.grad((t * t * w).sum(), t, create_graph=True)
        return g

    rg.vmap(inside)(x).sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), 2 * x.numpy().sum(0))
