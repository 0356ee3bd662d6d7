"""What PyTorch's tutorials on extending autograd teach, under both imports: eagerly, in sessions, strictly by value."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .tutorials import PROGRAMS

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "eager": nullcontext,
    "session": rg.Session,
    "strict": lambda: rg.Session(strict=True),
}


def flat(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in flat(item)] if isinstance(result, list) else [result]


@pytest.mark.oracle
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tutorial_runs_as_it_does_with_pytorch(name: str, mode: str) -> None:
    torch = pytest.importorskip("torch")
    expected = flat(PROGRAMS[name](torch))
    with MODES[mode]():
        found = flat(PROGRAMS[name](rg))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
