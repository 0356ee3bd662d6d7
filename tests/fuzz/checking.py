"""Runs a random program under torch and under raygrad, and says how they differ.

The two ways to run raygrad; what is compared is `comparing`'s, what is not, `exclusions`'s. A program whose user code
draws random numbers is compared with an eager run, since torch draws others.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from raygrad.workers.interpreter.user_emits import emitting_to

from ..conformance.harness import Watched
from .comparing import differences
from .exclusions import excluded, excluded_in_session
from .interpreter import Outcome, plain, run
from .programs import Program


def check_eagerly(program: Program, torch: Any, rg: Any) -> str | None:
    """Assert that a program means the same under both; return the id of the meant difference that it comes to, if any.

    Raises:
        AssertionError: it does not; says how.
    """
    expected = run(program, torch)
    found = excluded(program, expected)
    if found is None:
        if draws(program):
            expected = run(program, rg)
        told = list(differences(expected, run(program, rg)))
        assert not told, "\n".join(told)
    return found


def check_in_session(program: Program, torch: Any, rg: Any) -> str | None:
    """As `check_eagerly`, with raygrad in a session in this process. An error may surface at a later line there: the
    program is cut after the step that fails under torch, and has to fail by its end."""
    expected = run(program, torch)
    found = excluded(program, expected) or excluded_in_session(program, expected)
    if found is None:
        if draws(program):
            expected = run(program, rg)
        told = list(differences(expected, run_in_session(program, rg, expected), steps=False))
        assert not told, "\n".join(told)
    return found


def draws(program: Program) -> bool:
    """Tell whether user code of a program draws random numbers: they are those of an eager run, not torch's."""
    return "'noisy'" in repr(program.steps)


def run_in_session(program: Program, rg: Any, expected: Outcome) -> Outcome:
    """Run a program in a session of its own, which begins where the program says."""
    early: list[tuple[str, Any]] = []
    opened: list[Watched] = []
    last = None if expected.error is None else expected.error[1]
    with ExitStack() as eager:
        eager.enter_context(emitting_to(lambda name, value: early.append((name, plain(value)))))

        def open_session() -> None:
            eager.close()
            opened.append(Watched())
            opened[0].forget()

        discard = True
        try:
            outcome = run(
                program,
                rg,
                log=rg.emit,
                logged=lambda: early + opened[0].log(),
                stop_after=last,
                open_session=open_session,
            )
            discard = outcome.error is not None
        finally:
            for watched in opened:
                watched.close(discard)
    return outcome
