"""Runs a random program under torch and under raygrad, and says how they differ.

The two ways to run raygrad; what is compared is `comparing`'s, what is not, `exclusions`'s.
"""

from __future__ import annotations

from typing import Any

from ..conformance.harness import Watched
from .comparing import differences
from .exclusions import excluded, excluded_in_session
from .interpreter import Outcome, run
from .programs import Program


def check_eagerly(program: Program, torch: Any, rg: Any) -> str | None:
    """Assert that a program means the same under both; return the id of the meant difference that it comes to, if any.

    Raises:
        AssertionError: it does not; says how.
    """
    expected = run(program, torch)
    found = excluded(program, expected)
    if found is None:
        told = list(differences(expected, run(program, rg)))
        assert not told, "\n".join(told)
    return found


def check_in_session(program: Program, torch: Any, rg: Any) -> str | None:
    """As `check_eagerly`, with raygrad in a session in this process. An error may surface at a later line there: the
    program is cut after the step that fails under torch, and has to fail by its end."""
    expected = run(program, torch)
    found = excluded(program, expected) or excluded_in_session(program, expected)
    if found is None:
        told = list(differences(expected, run_in_session(program, rg, expected), steps=False))
        assert not told, "\n".join(told)
    return found


def run_in_session(program: Program, rg: Any, expected: Outcome) -> Outcome:
    """Run a program in a session of its own."""
    watched = Watched()
    watched.forget()
    last = None if expected.error is None else expected.error[1]
    try:
        outcome = run(program, rg, log=rg.emit, logged=watched.log, stop_after=last)
    except BaseException:
        watched.close(discard=True)
        raise
    watched.close(discard=outcome.error is not None)
    return outcome
