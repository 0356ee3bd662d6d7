"""All families of ops by one table: derivatives, shapes, dtypes and layouts of each case, and the values of torch.

What a family has besides stands in a test file of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .cases import FAMILIES
from .check import Case, check, compare

CASES = {f"{family}-{case}": case for family, cases in FAMILIES.items() for case in cases}
OPS = Path(__file__).parents[3] / "autograd" / "ops"


def test_each_family_has_a_file_and_cases_of_different_names():
    assert len(CASES) == sum(len(cases) for cases in FAMILIES.values())
    for family, cases in FAMILIES.items():
        assert any(OPS.rglob(f"{family}.py")), family
        assert cases


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_derivatives_shapes_dtypes_and_layouts(case: Case):
    check(case)


@pytest.mark.oracle
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.oracle])
def test_same_as_torch(name: str):
    torch: Any = pytest.importorskip("torch")
    compare(CASES[name], torch)
