"""`autograd.functional`: products and matrices, with and without a graph, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import functional

X, Y = rg.tensor([1.0, 2.0], dtype=rg.float64), rg.tensor([3.0, 4.0], dtype=rg.float64)


def cubes(x: Any) -> Any:
    return (x**3).sum()


def both(x: Any, y: Any) -> Any:
    return (x * y * y).sum()


def test_products() -> None:
    output, product = functional.vjp(lambda x: x * x, X, Y)
    assert output.tolist() == [1.0, 4.0]
    assert product.tolist() == [6.0, 16.0]
    assert functional.jvp(lambda x, y: (x * y, x.sum()), (X, Y), (Y, X))[1][0].tolist() == [10.0, 20.0]
    for name in (functional.vhp, functional.hvp):
        value, product = name(cubes, X, Y)
        assert value.item() == 9.0
        assert product.tolist() == [18.0, 48.0]
        first, second = name(both, (X, Y), (Y, X))[1]
        assert first.tolist() == [6.0, 16.0]
        assert second.tolist() == [20.0, 40.0]
    assert functional.hvp(lambda x: x.sum(), X, Y)[1].tolist() == [0.0, 0.0]


def test_matrices() -> None:
    assert functional.jacobian(lambda x: x * x, X).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    blocks = functional.jacobian(lambda x, y: (x * y, x.sum()), (X, Y))
    assert [[b.shape for b in row] for row in blocks] == [[(2, 2), (2, 2)], [(2,), (2,)]]
    assert functional.hessian(cubes, X).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert functional.hessian(both, (X, Y))[1][0].tolist() == [[6.0, 0.0], [0.0, 8.0]]
    assert functional.jacobian(lambda x: x[:0], X).shape == (0, 2)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_vectorized_matrices_are_the_same(strategy: str) -> None:
    def two(x: Any, y: Any) -> Any:
        return x * y, x.sum()

    for plain, fast in zip(
        functional.jacobian(two, (X, Y)),
        functional.jacobian(two, (X, Y), vectorize=True, strategy=strategy),
        strict=True,
    ):
        for a, b in zip(plain, fast, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy())
    one = functional.jacobian(lambda x: (x * x, x), X, vectorize=True, strategy=strategy)
    assert one[0].tolist() == [[2.0, 0.0], [0.0, 4.0]]
    hessian = functional.hessian(cubes, X, vectorize=True, outer_jacobian_strategy=strategy)
    assert hessian.tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_results_have_a_graph_if_it_is_asked_for() -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    assert not any(t.requires_grad for t in functional.vjp(lambda x: x**3, x, Y.to(rg.float32)))
    matrix = functional.jacobian(lambda x: x**3, x, create_graph=True)
    assert rg.autograd.grad(matrix.sum(), x)[0].tolist() == [6.0, 12.0]
    matrix = functional.hessian(lambda x: (x**4).sum(), x, create_graph=True)
    assert rg.autograd.grad(matrix.sum(), x)[0].tolist() == [24.0, 48.0]


@pytest.mark.parametrize(
    ("run", "kind", "message"),
    [
        (lambda: functional.vjp(lambda x: x * x, X), RuntimeError, "v can only be None"),
        (lambda: functional.jvp(lambda x: x * x, X), RuntimeError, "v can only be None"),
        (lambda: functional.vjp(lambda x: x * x, X, rg.ones(3)), RuntimeError, "invalid size"),
        (lambda: functional.vjp(lambda x: x * x, X, (Y, Y)), RuntimeError, "invalid length"),
        (lambda: functional.vjp(lambda x: x * x, [X], Y), TypeError, "The inputs"),
        (lambda: functional.vjp(lambda x: [x], X, Y), TypeError, "The outputs of the user-provided function"),
        (lambda: functional.vjp(lambda x, y: x * 2, (X, Y), Y, strict=True), RuntimeError, "independent of input 1"),
        (lambda: functional.vjp(lambda x: rg.ones(2), X, Y, strict=True), RuntimeError, "does not require grad"),
        (lambda: functional.jacobian(lambda x, y: x, (X, Y), strict=True), RuntimeError, "independent of input 1"),
        (lambda: functional.vhp(lambda x: x, X, Y), RuntimeError, "contain a single element"),
        (lambda: functional.hessian(lambda x: (x.sum(),), X), RuntimeError, "should return a single Tensor"),
        (lambda: functional.jacobian(cubes, X, strategy="forward-mode"), NotImplementedError, "vectorize=True"),
        (lambda: functional.jacobian(cubes, X, strict=True, vectorize=True), RuntimeError, "not supported together"),
        (lambda: functional.jacobian(cubes, X, strategy="sideways"), AssertionError, "Expected strategy"),
    ],
)
def test_what_it_refuses(run: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        run()
