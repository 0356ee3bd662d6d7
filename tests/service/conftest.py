"""Lets the processes of served sessions import modules of the tests by name, as clients name them."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the root on the path, where else it is not: a server's sessions have its path when they open."""
    monkeypatch.syspath_prepend(str(ROOT))
