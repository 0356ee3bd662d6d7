"""The family of ops in `ops/error_function.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ..check import compare_at


@pytest.mark.oracle
def test_inverse_of_no_number_as_torch():
    torch: Any = pytest.importorskip("torch")
    compare_at(lambda T, x: T.erfinv(x), np.array([np.nan, 0.0, 0.5, -2.0]), torch, order=1)
