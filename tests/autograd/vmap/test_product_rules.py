"""Products of vectors and matrices, of every rank, with either factor batched."""

from __future__ import annotations

import pytest

import raygrad as rg

from .agree import agree, values

LEFT = [(4,), (2, 4), (5, 2, 4)]
RIGHT = [(4,), (4, 3), (5, 4, 3)]


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("right", RIGHT)
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (1, 0)])
def test_every_pair_of_ranks(left: tuple[int, ...], right: tuple[int, ...], in_dims: tuple[int | None, int | None]):
    arrays = []
    for shape, dim in zip((left, right), in_dims, strict=True):
        arrays.append(values(*shape) if dim is None else values(*shape[:dim], 3, *shape[dim:]))
    agree(rg.matmul, *arrays, in_dims=in_dims)


def test_contractions():
    agree(lambda a, b: rg.einsum("ij,jk->ki", a, b), values(3, 2, 4), values(4, 5), in_dims=(0, None))
    agree(lambda a, b: rg.einsum("...j,j->...", a, b), values(3, 2, 4), values(3, 4))
    agree(lambda a, b: rg.einsum("i,j->ij", a, b), values(2), values(3, 4), in_dims=(None, 0))
