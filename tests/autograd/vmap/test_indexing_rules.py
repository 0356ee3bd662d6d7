"""Taking elements and putting them, by indices that are the same for all examples and by others for each."""

from __future__ import annotations

import pytest

import raygrad as rg

from .agree import agree, ints, leaf, values

DIMS = [(0, 0), (0, None), (None, 0)]


def arrays(dims: tuple[int | None, int | None], shape: tuple[int, ...], index: tuple[int, ...]):
    a = values(*shape) if dims[0] is None else values(3, *shape)
    return a, ints(2, *index) if dims[1] is None else ints(2, 3, *index)


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("index", [(), (4,), (2, 3)])
def test_index_tensors_take_elements(dims: tuple[int | None, int | None], index: tuple[int, ...]):
    a, i = arrays(dims, (2, 3, 4), index)
    agree(lambda x, n: (x[n], x[:, n], x[1, n], x[n, n], x[:, n, n], x[n, :, n], x[..., n]), a, i, in_dims=dims)


@pytest.mark.parametrize("dims", DIMS)
def test_index_tensors_put_elements(dims: tuple[int | None, int | None]):
    a, i = arrays(dims, (2, 3, 4), (5,))

    def puts(x, n):
        first = x.index_add(1, n, x[:, n] * 2)
        second = x + 0 * n.sum()
        second[n, :, n] = 3.0
        third = x + 0 * n.sum()
        third[:, n] = x[:, n] + 1
        return first, second, third

    agree(puts, a, i, in_dims=dims)


@pytest.mark.parametrize("dims", DIMS)
def test_gradients_of_taken_elements_are_put_back(dims: tuple[int | None, int | None]):
    a, i = arrays(dims, (2, 3, 4), (5,))

    def slope(x, n):
        x = leaf(x)
        (g,) = rg.autograd.grad(((x[n] ** 2).sum() + x[n, :, n].sum() + x[:, n].exp().sum()), x)
        return g

    agree(slope, a, i, in_dims=dims)


@pytest.mark.parametrize("dims", DIMS)
def test_along_one_dimension(dims: tuple[int | None, int | None]):
    a, i = arrays(dims, (2, 3), (2, 3))
    agree(
        lambda x, n: (
            x.gather(0, n),
            x.scatter(0, n, 5.0),
            x.scatter_add(1, n, x * 2),
            x.take_along_dim(n, 1),
            x.index_select(1, n[0]),
        ),
        a,
        i,
        in_dims=dims,
    )


def test_slices_and_what_is_put_there():
    agree(lambda x: (x[0], x[..., 1:], x[None, :, 1], x[::2]), values(3, 4, 2))

    def puts(x, y):
        x = x.clone()
        x[1:3] = y
        x[0, 0] = y.sum()
        return x

    agree(puts, values(3, 4, 2), values(3, 1, 2))
    agree(puts, values(3, 4, 2), values(2), in_dims=(0, None))
