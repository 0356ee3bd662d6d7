"""The family of ops in `ops/einsum.py`."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from .cases import FAMILIES
from .check import Case, check, compare

CASES = FAMILIES["einsum"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_shapes_dtypes_and_layouts(case: Case):
    check(case)


@pytest.mark.oracle
@pytest.mark.parametrize("case", [c for c in CASES if c.oracle], ids=str)
def test_same_as_torch(case: Case):
    torch: Any = pytest.importorskip("torch")
    compare(case, torch)


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
