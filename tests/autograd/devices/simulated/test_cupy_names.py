"""What the stand-in says that CuPy has is in NumPy, or in the stand-in; and, where CuPy is installed, in CuPy."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.devices import StandIn
from raygrad.autograd.devices.backends import pinned, staging
from raygrad.autograd.devices.simulated import cupy_names as names
from raygrad.autograd.devices.simulated.simulated_array import StandInArray
from raygrad.autograd.devices.simulated.simulated_streams import (
    SimulatedCuda,
    SimulatedEvent,
    SimulatedPointer,
    SimulatedStream,
    StandInCudaError,
)

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


STOOD_IN_FOR: dict[str, Any] = {
    "cuda.Event": SimulatedEvent,
    "cuda.Stream": SimulatedStream,
    "cuda.MemoryPointer": SimulatedPointer,
    "cuda.runtime.CUDARuntimeError": StandInCudaError,
    "ndarray": StandInArray,
}
"""By CuPy's names, the classes of the stand-in."""


def stood_in_for(name: str) -> Any:
    whole, _, part = name.rpartition(".")
    if whole in STOOD_IN_FOR:
        return getattr(STOOD_IN_FOR[whole], part)
    return STOOD_IN_FOR[name] if name == "cuda.runtime.CUDARuntimeError" else getattr(SimulatedCuda, part)


def parameters(function: Any) -> list[str]:
    """The names of parameters; of what is compiled, by the first line of its documentation."""
    try:
        known = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        line = (inspect.getdoc(function) or "").partition("\n")[0]
        known = [one.partition("=")[0].split()[-1] for one in line.partition("(")[2].partition(")")[0].split(",")]
    return [one for one in known if one != "self"]


def test_copies_are_made_with_these_names_and_no_others():
    text = "".join(Path(str(module.__file__)).read_text() for module in (staging, pinned))
    table = {name.split(".")[1] for name in names.COPYING if name.startswith("cuda.")}
    assert set(re.findall(r"cuda\.(\w+)", text)) == table - {"MemoryPointer"}
    for name, options in names.COPYING.items():
        there = stood_in_for(name)
        if not isinstance(there, property | type):
            assert parameters(there) == list(options), name
    assert StandIn(1).streams.runtime == SimpleNamespace(CUDARuntimeError=StandInCudaError)


def test_copies_are_made_with_names_of_cupy():
    cupy = pytest.importorskip("cupy")
    for name, options in names.COPYING.items():
        there = found(cupy, name)
        if options:
            assert set(options) <= set(parameters(there)), name
