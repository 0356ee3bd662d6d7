"""The family of ops in `ops/factorizations.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ..check import compare_at


@pytest.mark.oracle
@pytest.mark.parametrize("values", [True, False], ids=["values", "vectors"])
def test_the_derivatives_of_symmetric_matrices_are_as_torch_has_them(values: bool):
    torch: Any = pytest.importorskip("torch")

    def run(T: Any, a: Any) -> Any:
        if values:
            return T.linalg.eigvalsh(a) ** 3
        return T.linalg.eigh(a)[1].abs() * T.tensor([1.0, 2.0, 3.0], dtype=T.float64)

    compare_at(run, np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]]), torch)
