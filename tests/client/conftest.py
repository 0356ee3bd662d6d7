"""What the tests of sessions share: one in process, with one worker and with two, and one that is strict."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg


@pytest.fixture(params=[{"workers": 1}, {"workers": 2}, {"workers": 1, "strict": True}], ids=["one", "two", "strict"])
def session(request: pytest.FixtureRequest) -> Any:
    session = rg.Session(**request.param)
    yield session
    session.close(discard=True)
