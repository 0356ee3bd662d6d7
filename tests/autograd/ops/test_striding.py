"""The family of ops in `ops/striding.py`."""

from __future__ import annotations

from typing import Any

import pytest

from .cases import FAMILIES
from .check import Case, check, compare

CASES = FAMILIES["striding"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_derivatives_shapes_dtypes_and_layouts(case: Case):
    check(case)


@pytest.mark.oracle
@pytest.mark.parametrize("case", [c for c in CASES if c.oracle], ids=str)
def test_same_as_torch(case: Case):
    torch: Any = pytest.importorskip("torch")
    compare(case, torch)
