"""What is recorded and not submitted yet."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import SessionError


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_nothing_is_recorded_in_a_session_that_is_closed() -> None:
    with rg.Session(workers=1) as session:
        y = rg.tensor([1.0]) * 2.0
    assert session._log.records == []
    with pytest.raises(SessionError, match="this session is closed"):
        session._recorder.require(y._data)


def test_little_that_is_recorded_can_wait_and_much_cannot(session: Any) -> None:
    recorder = session._recorder
    small = rg.zeros(4) * 2.0
    assert recorder.log.can_wait()
    large = rg.zeros(100_000) * 2.0
    assert not recorder.log.can_wait()
    del small, large


def test_specs_are_interned(session: Any) -> None:
    recorder = session._recorder
    assert recorder.log.specs.of_meta(((2, 3), "float64")) is recorder.log.specs.of_meta(((2, 3), "float64"))
    assert recorder.log.specs.of_meta(((2, 3), "float64"), rg.device("cpu")) is recorder.log.specs.of_meta(
        ((2, 3), "float64")
    )
    assert recorder.log.specs.of_meta(((2, 3), "float64"), rg.device("cuda:1")).spec.device == "cuda:1"
