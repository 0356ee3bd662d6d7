"""What the stand-in says that CuPy has is in NumPy; and, where CuPy is installed, in CuPy."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.devices import stand_in_names as names

TABLES = {"": names.FUNCTIONS | names.UFUNCS | names.MAKERS, "linalg.": names.LINALG, "fft.": names.FFT}
ALL = sorted(part + name for part, table in TABLES.items() for name in table)


def found(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def test_each_is_a_function_of_numpy():
    assert all(callable(found(np, name)) for name in ALL)
    assert all(isinstance(getattr(np, name), np.ufunc) for name in names.UFUNCS)
    assert (names.SCATTERING | names.REDUCING) <= names.UFUNCS
    for name, options in names.LACKING.items():
        known = inspect.signature(found(np, name)).parameters
        assert "kwargs" in known or set(options) <= set(known), name


def test_each_is_a_function_of_cupy():
    cupy = pytest.importorskip("cupy")
    assert [name for name in ALL if not callable(found(cupy, name))] == []
    for name in names.SCATTERING:
        assert getattr(cupy, name)._scatter_op, name
