"""The family of ops in `ops/einsum.py`."""

from __future__ import annotations

import pytest

import raygrad as rg


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij->k", "output label 'k'"),
        ("ij,jk", "2 terms"),
        ("ijk", "does not fit"),
        ("i...jk", "more labels"),
        ("i1->i", "does not fit"),
    ],
)
def test_equations_that_do_not_fit(equation: str, message: str):
    with pytest.raises(RuntimeError, match=message):
        rg.einsum(equation, rg.ones(2, 3))


def test_extents_that_do_not_fit():
    with pytest.raises(RuntimeError, match=r"label 'j' stands for 3 in one operand and 2 in another"):
        rg.einsum("ij,jk->ik", rg.ones(2, 3), rg.ones(2, 3))


def test_ellipses_are_aligned_at_their_last_dimensions():
    many, few = rg.arange(6.0).reshape(2, 3, 1), rg.tensor([[1.0], [10.0], [100.0]])
    assert rg.einsum("...i,...i->...", many, few).tolist() == [[0, 10, 200], [3, 40, 500]]
    assert rg.einsum("...i,...i->...", few, many).tolist() == [[0, 10, 200], [3, 40, 500]]
