"""The family of ops in `ops/error_function.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .cases import FAMILIES
from .check import Case, check, compare, compare_at

CASES = FAMILIES["error_function"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_shapes_dtypes_and_layouts(case: Case):
    check(case)


@pytest.mark.oracle
@pytest.mark.parametrize("case", [c for c in CASES if c.oracle], ids=str)
def test_same_as_torch(case: Case):
    torch: Any = pytest.importorskip("torch")
    compare(case, torch)


@pytest.mark.oracle
def test_inverse_of_no_number_as_torch():
    torch: Any = pytest.importorskip("torch")
    compare_at(lambda T, x: T.erfinv(x), np.array([np.nan, 0.0, 0.5, -2.0]), torch, order=1)
