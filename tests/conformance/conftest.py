"""What the files of the suite share: what each program gives eagerly."""

from __future__ import annotations

import pytest

from .harness import Outcome, run_here
from .programs import PROGRAMS, Program


@pytest.fixture(scope="module")
def references() -> dict[str, Outcome | Exception]:
    """What each program gives eagerly, or wrongly raises: computed before any session is open."""
    return {name: _eagerly(program) for name, program in PROGRAMS.items()}


def _eagerly(program: Program) -> Outcome | Exception:
    try:
        return run_here(program, "raygrad")
    except Exception as error:  # shown by every test of that program
        return error
