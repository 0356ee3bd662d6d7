"""Compiled functions read what rare objects hold as it is at each call."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from ..functions.captured_kinds import Kind
from ..functions.rare_kinds import AT_ONCE, COMPARED


def check_calls(session: Any, kind: Kind) -> Any:
    """Assert that a function with this read gives what the program has put there at each call; return it compiled."""
    read = kind.read
    step = session.compile(lambda x: x * read())
    x = rg.tensor([1.0, -2.0], dtype=rg.float64)
    for value in (None, None, None, 3.0, None, None, 5.0, 7.0, None):
        if value is not None:
            kind.put(value)
        expected = kind.read()
        assert step(x).tolist() == [expected, -2.0 * expected], (value, step.reason)
    return step


@pytest.mark.parametrize("name", COMPARED)
def test_what_rare_objects_hold_is_compared(name: str) -> None:
    kind = COMPARED[name]()
    with rg.Session(workers=1) as session:
        step = check_calls(session, kind)
        assert step.replayed > 0 or name == "evaluated", step.reason


@pytest.mark.filterwarnings("ignore:.*recorded anew at each call.*:UserWarning")
@pytest.mark.parametrize("name", AT_ONCE)
def test_what_no_guard_of_user_code_compares_is_that_of_the_call(name: str) -> None:
    kind = AT_ONCE[name]()
    with rg.Session(workers=1) as session:
        check_calls(session, kind)
