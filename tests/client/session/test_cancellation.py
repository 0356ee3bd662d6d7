"""Cancelled runs of sessions in this process: nothing of them goes on, and the session does."""

from __future__ import annotations

import os
import signal
from typing import Any, cast

import pytest
from tests.client.cancelling import SECONDS, Sleeps, Spins, SpinsBack, Stubborn, check_idle, later, learn

import raygrad as rg
from raygrad.errors import DroppedError, RunCancelled

pytestmark = pytest.mark.timeout(60)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_run_is_cancelled_from_another_thread_while_it_is_waited_for(session: Any) -> None:
    with session:
        learn(Spins)
        y = Spins.apply(rg.ones(3), SECONDS)
        run = session.run(y)
        thread = later(0.3, run.cancel)
        with pytest.raises(RunCancelled, match=r"made by 'Spins' \(.*\), was not computed: run \d+ was cancelled"):
            y.tolist()
        thread.join()
        with pytest.raises(RunCancelled, match="was cancelled"):
            run.wait()
        assert "cancelled" in repr(run)
        assert Spins.apply(rg.ones(3), 0.0).tolist() == [2.0] * 3
        check_idle(session)


def test_cancelling_again_or_after_the_end_does_nothing(session: Any) -> None:
    with session:
        learn(Spins)
        y = Spins.apply(rg.ones(3), 0.0)
        run = session.run(y).wait()
        assert not run.cancel()
        assert not session.cancel()
        assert y.tolist() == [2.0] * 3
        run = session.run(Spins.apply(rg.ones(3), SECONDS))
        assert run.cancel()
        assert not run.cancel()
        assert not session.cancel()
        assert run.done()


def test_what_reads_from_a_cancelled_run_is_cancelled_and_what_does_not_goes_on(session: Any) -> None:
    with session:
        learn(Spins)
        other = rg.ones(3) * 5.0
        kept = session.run(other)
        slow = Spins.apply(rg.ones(3), SECONDS)
        first = session.run(slow)
        reader = slow + 1.0
        second = session.run(reader)
        apart = rg.ones(3) * 7.0
        third = session.run(apart)
        unsubmitted = slow * 2.0
        assert first.cancel()
        for value in (reader, unsubmitted):
            with pytest.raises(RunCancelled):
                value.tolist()
        with pytest.raises(DroppedError):
            second.wait()
        assert apart.tolist() == [7.0] * 3
        assert other.tolist() == [5.0] * 3
        assert kept.wait().finished
        assert third.wait().finished


def test_a_step_that_is_cancelled_in_backward_leaves_gradients_as_before(session: Any) -> None:
    with session:
        learn(SpinsBack)
        w: Any = rg.ones(3, requires_grad=True)
        SpinsBack.apply(w, 0.0).sum().backward()
        assert w.grad.tolist() == [2.0] * 3
        SpinsBack.apply(w, SECONDS).sum().backward()
        thread = later(0.3, session.cancel)
        with pytest.raises(RunCancelled):
            session.last_run.wait()
        thread.join()
        assert w.grad.tolist() == [2.0] * 3
        SpinsBack.apply(w, 0.0).sum().backward()
        assert w.grad.tolist() == [4.0] * 3


def test_cancelling_between_forward_and_backward_leaves_what_was_computed(session: Any) -> None:
    with session:
        learn(SpinsBack)
        w: Any = rg.ones(3, requires_grad=True)
        loss = SpinsBack.apply(w, 0.0).sum()
        assert loss.item() == 6.0
        assert not session.cancel()
        loss.backward()
        assert w.grad.tolist() == [2.0] * 3


def test_emits_of_a_cancelled_run_that_have_not_arrived_never_do(session: Any) -> None:
    begun: list[float] = []
    with session:
        session.on("begun", begun.append)
        learn(Spins)
        run = session.run(Spins.apply(rg.ones(3), SECONDS))
        thread = later(0.3, run.cancel)
        with pytest.raises(RunCancelled):
            run.wait()
        thread.join()
        learn(Spins)
        assert begun == [0.0, 0.0]
        assert run.emits == []


def test_code_that_takes_no_notice_is_ended_after_its_node() -> None:
    with rg.Session(workers=2) as session:
        learn(Stubborn)
        with rg.place(worker=0):
            y = Stubborn.apply(Stubborn.apply(rg.ones(3), SECONDS), SECONDS)
        run = session.run(y)
        thread = later(0.3, run.cancel)
        with pytest.raises(RunCancelled):
            y.tolist()
        thread.join()
        check_idle(session)


def test_code_that_cannot_be_ended_here_is_warned_of_and_named() -> None:
    def cancelled() -> None:
        with rg.Session(workers=1) as session:
            learn(Sleeps)
            run = session.run(Sleeps.apply(rg.ones(3), 2.5))
            thread = later(0.2, run.cancel)
            with pytest.raises(RunCancelled):
                run.wait()
            thread.join()
            assert (rg.ones(3) * 3.0).tolist() == [3.0] * 3
            check_idle(session)

    with pytest.warns(RuntimeWarning, match=r"run \d+ was cancelled, and 'Sleeps' \(.*\) still runs in this process"):
        cancelled()


def test_ctrl_c_leaves_nothing_running_and_the_next_cell_right(session: Any) -> None:
    with session:
        learn(Spins)
        values = [Spins.apply(rg.ones(3) * index, SECONDS) for index in range(4)]
        session.run(*values)
        thread = later(0.3, interrupt)
        with pytest.raises(KeyboardInterrupt):
            values[0].tolist()
        thread.join()
        assert not any(session._driver._machine.state.in_flight.values())
        assert Spins.apply(rg.ones(3), 0.0).tolist() == [2.0] * 3
        for value in values:
            with pytest.raises(RunCancelled):
                value.tolist()
        check_idle(session)


def test_ctrl_c_while_a_function_is_learned_leaves_a_usable_session(session: Any) -> None:
    with session:
        thread = later(0.3, interrupt)
        with pytest.raises(KeyboardInterrupt):
            Spins.apply(rg.ones(3), SECONDS)
        thread.join()
        learn(Spins)
        check_idle(session)


def test_ctrl_c_while_a_submission_is_planned_drops_it_alone(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with session:
        x = rg.ones(3) * 2.0
        x.tolist()
        y = x * 5.0

        def interrupted(*args: Any, **named: Any) -> Any:
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(session._driver.planner, "plan", interrupted)
        with pytest.raises(KeyboardInterrupt):
            y.tolist()
        with pytest.raises(RunCancelled):
            y.tolist()
        assert (x * 5.0).tolist() == [10.0] * 3


def test_user_code_may_cancel_its_own_run() -> None:
    sessions: list[Any] = []

    def cancels(grad: Any) -> Any:
        sessions[0].cancel()
        return grad * 3.0

    with rg.Session(workers=1) as session:
        sessions.append(session)
        w: Any = rg.ones(3, requires_grad=True)
        (w * 2.0).register_hook(cancels)
        y = w * 2.0
        y.register_hook(cancels)
        y.sum().backward()
        with pytest.raises(RunCancelled):
            cast(Any, session.last_run).wait()
        assert w.grad is None
        assert (w.detach() * 3.0).tolist() == [3.0] * 3


def test_a_session_that_is_closed_or_idle_has_nothing_to_cancel() -> None:
    with rg.Session() as session:
        assert not session.cancel()
        run = session.run(rg.ones(3) * 2.0)
    assert not run.cancel()
    assert not session.cancel()
