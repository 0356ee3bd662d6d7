"""`T`: the same program under raygrad and, where it is installed, under PyTorch, whose behaviour is the contract."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(params=["raygrad", pytest.param("torch", marks=pytest.mark.oracle)])
def T(request: pytest.FixtureRequest) -> Any:
    """The module that a program imports as `torch`."""
    return pytest.importorskip(request.param)
