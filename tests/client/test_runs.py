"""A run tells its plan, its progress and what came back."""

from __future__ import annotations

import os

import pytest

import raygrad as rg
from raygrad.errors import SessionError


def test_a_run_ends_and_says_so() -> None:
    with rg.Session(workers=1) as session:
        y = rg.tensor([1.0]) * 2.0
        run = session.run(y)
        assert run.wait(10).done()
        assert "finished" in repr(run)
        assert run.records[0].status == "done"
        assert run.plan.rows()[0].forward_nodes == 1


def test_hooks_are_counted_by_process() -> None:
    with rg.Session(workers=1) as session:
        x = rg.tensor([1.0], requires_grad=True)
        x.register_hook(lambda grad: grad * 2.0)
        (x * 3.0).sum().backward()
        run = session.last_run
        assert run is not None
        run.wait(10)
        assert run.hooks == {os.getpid(): 1}


def test_a_session_that_recorded_nothing_has_no_run() -> None:
    with rg.Session(workers=1) as session, pytest.raises(SessionError, match="nothing has been recorded"):
        session.run()
