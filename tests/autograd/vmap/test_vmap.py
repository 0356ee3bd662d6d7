"""vmap: what goes in and comes out, randomness, chunks, and changes in place (VM-12, VM-15 to VM-17)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import raygrad as rg

from .agree import leaf


class Pair(NamedTuple):
    left: Any
    right: Any


X = np.arange(6.0).reshape(2, 3)


def test_containers_go_in_and_out():  # VM-16
    def f(pair: Pair, more: dict[str, Any]) -> Any:
        return {"sum": pair.left + more["a"], "both": [pair.right, (pair.left,)]}

    out = rg.vmap(f, in_dims=(Pair(0, None), 0))(Pair(rg.tensor(X), rg.tensor(5.0)), {"a": rg.tensor([1.0, 2.0])})
    np.testing.assert_array_equal(out["sum"].numpy(), X + np.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(out["both"][0].numpy(), [5.0, 5.0])
    assert isinstance(out["both"][1], tuple)


def test_keyword_arguments_are_the_same_for_all_as_in_pytorch():  # VM-16, as observed on 2.13
    out = rg.vmap(lambda x, *, y: x * y)(rg.tensor([1.0, 2.0]), y=rg.tensor([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(out.numpy(), [[1, 2, 3], [2, 4, 6]])


def test_one_value_may_be_kept_for_all():
    c = rg.tensor([1.0, 2.0])
    assert rg.vmap(lambda x: c, out_dims=None)(rg.tensor(X)) is c
    assert rg.vmap(lambda x: c)(rg.tensor(X)).shape == (2, 2)
    assert rg.vmap(lambda x: (x, "text"), out_dims=(0, None))(rg.tensor(X))[1] == "text"


def test_no_examples_are_a_batch_too():
    out = rg.vmap(lambda x: (x.sum(), x @ x, x[:2], x.max()))(rg.zeros(0, 3))
    assert [o.shape for o in out] == [(0,), (0,), (0, 2), (0,)]


def test_chunks_give_what_the_whole_gives():
    x = rg.tensor(np.arange(20.0).reshape(5, 4))
    whole = rg.vmap(lambda x: (x * 2, x.sum()), out_dims=(1, 0))(x)
    parts = rg.vmap(lambda x: (x * 2, x.sum()), out_dims=(1, 0), chunk_size=2)(x)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_nested_batches():
    a, b = rg.tensor(np.arange(3.0)), rg.tensor(np.arange(4.0))
    out = rg.vmap(lambda x: rg.vmap(lambda y: x * 10 + y)(b))(a)
    np.testing.assert_array_equal(out.numpy(), np.arange(3.0)[:, None] * 10 + np.arange(4.0))


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_random_numbers_differ_or_not(chunk_size: int | None):  # VM-12
    x = rg.zeros(5, 3)

    def noisy(x: Any) -> Any:
        return x + rg.randn(3), rg.randperm(6), rg.rand_like(x), rg.randint(0, 1000, (2,)), rg.dropout(x + 1, 0.5)

    for name, alike in (("same", True), ("different", False)):
        rg.manual_seed(3)
        for drawn in rg.vmap(noisy, randomness=name, chunk_size=chunk_size)(x):
            array = drawn.numpy()
            assert (array == array[0]).all() == alike
    with pytest.raises(RuntimeError, match="randomness"):
        rg.vmap(noisy)(x)


def test_random_numbers_of_nested_batches():
    def noisy(x: Any) -> Any:
        return x + rg.randn(())

    inner = rg.vmap(noisy, randomness="same")
    out = rg.vmap(inner, randomness="different")(rg.zeros(2, 3)).numpy()
    assert (out[:, 0] == out[:, 1]).all()
    assert out[0, 0] != out[1, 0]


def test_changes_in_place_are_changes_of_all_examples():
    x = rg.tensor(X)
    rg.vmap(lambda t: t.mul_(2))(x)
    np.testing.assert_array_equal(x.numpy(), X * 2)

    def change(t: Any) -> Any:
        y = t.clone()
        view = y[1:]
        view.add_(t[0])
        y[0] = 7.0
        return y, view

    y, view = rg.vmap(change)(rg.tensor(X))
    np.testing.assert_array_equal(y.numpy(), [[7, 1, 2], [7, 7, 8]])
    np.testing.assert_array_equal(view.numpy(), [[1, 2], [7, 8]])


@pytest.mark.parametrize("flows", ["outside", "inside"])
def test_gradients_through_changes_in_place(flows: str):
    def f(t: Any) -> Any:
        y = t * 3
        view = y[:2]
        view.mul_(t[2])
        y.exp_()
        return y.sum()

    def plain(t: Any) -> Any:
        return rg.cat([t[:2] * 3 * t[2], t[2:] * 3]).exp().sum()

    def slope(g: Any) -> Any:
        if flows == "outside":
            x = rg.tensor(X * 0.1, requires_grad=True)
            rg.vmap(g)(x).sum().backward()
            return x.grad

        def inner(t: Any) -> Any:
            t = leaf(t)
            return rg.autograd.grad(g(t), t)[0]

        return rg.vmap(inner)(rg.tensor(X * 0.1))

    np.testing.assert_allclose(slope(f).numpy(), slope(plain).numpy())


def test_a_value_that_another_saw_changed_in_place_raises():
    def f(t: Any) -> Any:
        t = leaf(t)
        y = t.exp()
        y.add_(1)
        return rg.autograd.grad(y.sum(), t)[0]

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        rg.vmap(f)(rg.tensor(X))


def test_a_captured_tensor_takes_no_value_per_example():  # VM-17
    captured = rg.zeros(3)
    with pytest.raises(RuntimeError, match="inplace"):
        rg.vmap(lambda t: captured.add_(t))(rg.tensor(X).float())
    with pytest.raises(RuntimeError, match="inplace"):
        rg.vmap(lambda t: captured.__setitem__(0, t[0]))(rg.tensor(X).float())
    np.testing.assert_array_equal(captured.numpy(), [0, 0, 0])


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: rg.vmap(lambda: x)(), ValueError, "got no inputs"),
        (lambda x: rg.vmap(lambda x: x, in_dims=(None,))(x), ValueError, "at least one Tensor"),
        (lambda x: rg.vmap(lambda x, y: x)(x, rg.zeros(5)), ValueError, "same size in the mapped dimension"),
        (lambda x: rg.vmap(lambda x: x, in_dims=[0])(x), ValueError, "expected in_dims to be int"),
        (lambda x: rg.vmap(lambda x: x, in_dims=(0, 0))(x), ValueError, "not compatible with the structure of inputs"),
        (lambda x: rg.vmap(lambda x, k: x)(x, 3), ValueError, "Got in_dim=0 for an input but"),
        (lambda x: rg.vmap(lambda x: x, in_dims=2)(x), ValueError, "dimensionality"),
        (lambda x: rg.vmap(lambda x: x, in_dims=("0",))(x), ValueError, "must be either an integer dimension or None"),
        (lambda x: rg.vmap(lambda x: x, out_dims="0")(x), ValueError, "must be an int, None or"),
        (lambda x: rg.vmap(lambda x: (x, x), out_dims=(0,))(x), ValueError, "not compatible"),
        (lambda x: rg.vmap(lambda x: x, out_dims=(0, 0))(x), ValueError, "not compatible"),
        (lambda x: rg.vmap(lambda x: 3)(x), ValueError, "got type"),
        (lambda x: rg.vmap(lambda x: x, out_dims=None)(x), ValueError, "when out_dim is None"),
        (lambda x: rg.vmap(lambda x: x, out_dims=2)(x), IndexError, "Dimension out of range"),
        (lambda x: rg.vmap(lambda x: x, chunk_size=0), ValueError, "chunk_size"),
        (lambda x: rg.vmap(lambda x: x, randomness="some"), RuntimeError, "'error', 'different', or 'same'"),
    ],
)
def test_what_does_not_fit_is_said(call: Any, kind: type[Exception], words: str):  # VM-12, VM-15, VM-16
    with pytest.raises(kind) as caught:
        call(rg.zeros(2, 3))
    assert words in str(caught.value)
