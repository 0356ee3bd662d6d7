"""The session's life: recording, reading, raising, closing."""

from __future__ import annotations

import gc
import signal
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import DroppedError, PlanError, RaygradError, SessionError


class Cube(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x * x * 3.0


class FailsFromThree(rg.autograd.Function):
    """Its backward raises once x has reached three."""

    @staticmethod
    def forward(ctx: Any, x: Any, step: Any) -> Any:
        ctx.save_for_backward(x, step)
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        _, step = ctx.saved_tensors
        if float(step) == 3.0:
            raise ArithmeticError("third step", 3)
        return grad, None


class Root(rg.autograd.Function):
    """Its forward raises for negative numbers."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        if float(x) < 0:
            raise ArithmeticError("negative")
        return x.sqrt()


def test_values_are_fetched_when_the_session_closes(session: Any) -> None:
    with session:
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        y = (x * 3.0).sum()
        y.backward()
    assert float(y.detach()) == 9.0
    assert x.grad.numpy().tolist() == [3.0, 3.0]
    assert (y.detach() + 1.0).item() == 10.0  # eager again


def test_discarding_drops_what_is_not_here(session: Any) -> None:
    with session:
        y = rg.tensor([1.0]) * 2.0
        session.close(discard=True)
    with pytest.raises(SessionError, match="dropped when its session was closed"):
        y.numpy()


def test_h21_an_error_is_raised_once_at_the_next_sync_point(session: Any) -> None:
    with session:
        x: Any = rg.tensor(1.0, requires_grad=True)
        bad = FailsFromThree.apply(x, rg.tensor(3.0))
        bad.backward()
        good = rg.tensor([1.0]) + 1.0
        with pytest.raises(ArithmeticError, match="third step") as caught:
            good.numpy()
        assert caught.value.args == ("third step", 3)
        assert good.numpy().tolist() == [2.0]
        assert x.grad is None


def test_an_error_names_node_worker_shapes_and_the_users_line(session: Any) -> None:
    with session:
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        loss = FailsFromThree.apply(x, rg.tensor(3.0)).sum()
        loss.backward()
        with pytest.raises(ArithmeticError) as caught:
            x.grad.numpy()
    notes = "\n".join(caught.value.__notes__)
    assert "FailsFromThree" in notes
    assert "worker" in notes
    assert "float32[2]" in notes
    assert "test_session.py" in notes
    assert "raise ArithmeticError" in notes


def test_h8_a_failure_in_step_three_of_five_leaves_parameters_as_after_step_two(session: Any) -> None:
    def train(steps: int) -> Any:
        w = rg.tensor([1.0, -2.0], dtype=rg.float64, requires_grad=True)
        optimiser = rg.optim.SGD([w], lr=0.1, momentum=0.9)
        for step in range(1, steps + 1):
            optimiser.zero_grad()
            loss = (FailsFromThree.apply(w, rg.tensor(float(step))) ** 2).sum()
            loss.backward()
            optimiser.step()
        return w

    after_two = train(2).detach().numpy()
    with session:
        with pytest.raises(ArithmeticError) as caught:
            w = train_into(session, 5)
        w = kept["w"]
        assert w.detach().numpy().tobytes() == after_two.tobytes()
        assert "dropped with it" in "\n".join(caught.value.__notes__)


kept: dict[str, Any] = {}


def train_into(session: Any, steps: int) -> Any:
    w = kept["w"] = rg.tensor([1.0, -2.0], dtype=rg.float64, requires_grad=True)
    optimiser = rg.optim.SGD([w], lr=0.1, momentum=0.9)
    for step in range(1, steps + 1):
        optimiser.zero_grad()
        loss = (FailsFromThree.apply(w, rg.tensor(float(step))) ** 2).sum()
        loss.backward()
        optimiser.step()
    session._waiter.wait_for_everything()
    return w


def test_two_sessions_do_not_disturb_each_other() -> None:
    one, two = rg.Session(workers=1), rg.Session(workers=1)
    with one:
        a = rg.tensor([1.0]) * 2.0
        with two:
            b = rg.tensor([1.0]) * 3.0
            with pytest.raises(SessionError, match="another session"):
                _ = a + b
        assert b.numpy().tolist() == [3.0]
        assert a.numpy().tolist() == [2.0]


def test_start_makes_a_notebooks_session_ambient_until_close() -> None:
    session = rg.Session(workers=1).start()
    y = rg.tensor([1.0]) * 2.0
    assert repr(y).startswith("tensor(pending")
    session.close()
    assert y.numpy().tolist() == [2.0]
    assert repr(rg.tensor([1.0]) * 2.0) == "tensor([2.])"


def test_a_closed_session_says_so() -> None:
    session = rg.Session(workers=1)
    session.close()
    with pytest.raises(SessionError, match="closed"), session:
        pass


def test_values_live_as_long_as_the_client_holds_them(session: Any) -> None:
    with session:
        x: Any = rg.tensor([1.0, 2.0])
        y = x * 2.0
        y.numpy()
        key = (y._data.record.run, y._data.record.base)
        del y
        gc.collect()
        assert key in session._log.dropped
        (x + 1.0).numpy()
        assert key not in session._log.dropped


def test_put_stands_for_an_array(session: Any) -> None:
    with session:
        big = session.put(np.ones((100, 100)))
        assert float((big * 2.0).sum()) == 20_000.0


def test_unknown_addresses_and_options_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 'local' .*, 'ray' .*, 'ray:HOST:PORT' or 'wss://HOST:PORT'"):
        rg.Session("spark")
    with pytest.raises(ValueError, match="unknown options for a local session: colour"):
        rg.Session(colour="blue")  # pyright: ignore[reportCallIssue]
    with pytest.raises(ValueError, match="from 1 to 100,000, got 0"):
        rg.Session(workers=0)


def test_errors_are_raygrads_own_and_the_builtins() -> None:
    assert issubclass(SessionError, RaygradError)
    assert issubclass(SessionError, RuntimeError)


def test_ctrl_c_in_user_code_leaves_a_usable_session() -> None:
    class Interrupted(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            signal.raise_signal(signal.SIGINT)
            return x

    with rg.Session(workers=1):
        w = rg.tensor([1.0], requires_grad=True)
        with pytest.raises(KeyboardInterrupt):
            Interrupted.apply(w).detach().numpy()
        assert (w.detach() * 3.0).numpy().tolist() == [3.0]


def test_what_a_failure_left_recorded_does_not_reach_later_work(session: Any) -> None:
    class Negative(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            if float(x) < 0:
                raise ArithmeticError("negative")
            return x * 1.0

    with session:
        w = rg.tensor(1.0, requires_grad=True)
        assert Negative.apply(rg.tensor(4.0) * w).item() == 4.0
        bad = Negative.apply(rg.tensor(-4.0) * w)
        session._submitter.submit()
        later = bad * 2.0  # depends on the failure
        other = rg.tensor([1.0]) * 3.0
        with pytest.raises(ArithmeticError):
            session._waiter.wait_for_everything()
        assert Root.apply(rg.tensor(9.0)).item() == 3.0
        assert other.numpy().tolist() == [3.0]
        with pytest.raises(DroppedError):
            later.detach().numpy()


def test_in_process_a_warning_that_is_made_an_error_is_one_of_the_code_that_issues_it() -> None:
    class Warns(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            warnings.warn("in backward", stacklevel=1)
            return grad

    with rg.Session() as session:
        x: Any = rg.tensor([1.0], requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Warns.apply(x).sum().backward()
            with pytest.raises(UserWarning, match="in backward") as caught:
                x.grad.tolist()
        assert any("raised by node" in note for note in caught.value.__notes__)
        assert session.last_run is not None
        assert session.last_run.failed
        assert x.grad is None


def test_a_submission_keeps_to_the_memory_of_a_worker_or_is_refused_with_what_would_do() -> None:
    def train() -> Any:
        weight: Any = rg.tensor(np.full(100, 0.5), requires_grad=True)
        loss: Any = 0.0
        for batch in range(8):
            loss = loss + Cube.apply(weight * rg.tensor(np.full(100, float(batch)))).sum()
        loss.backward()
        return weight.grad.numpy()

    expected = train()
    with rg.Session(workers=2, strict=True, memory=60_000):
        assert np.array_equal(train(), expected)
    with pytest.raises(PlanError, match=r"worker 0 has memory=1000 and needs memory=\d+"), rg.Session(memory=1000):
        train()


@pytest.mark.parametrize("memory", [0, -1, [100], [100, 0]])
def test_a_memory_that_is_none_is_refused(memory: Any) -> None:
    with pytest.raises(ValueError, match="memory must be"):
        rg.Session(workers=2, memory=memory)


def test_each_value_that_nobody_holds_any_more_is_dropped_once(session: Any) -> None:
    told: list[tuple[int, int]] = []
    release = session._driver._release

    def noted(gone: list[tuple[int, int]]) -> None:
        told.extend(gone)
        release(gone)

    session._driver._release = noted
    with session:
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        held = [Cube.apply(x) * float(number) for number in range(4)]
        values = {(one._data.record, one._data.index) for one in held}
        session._submitter.submit()
        keys = {(record.run, record.base + index) for record, index in values}
        values.clear()
        for number in range(4):
            held.pop()
            gc.collect()
            session._submitter.next_run()
            for _ in range(3):
                session._submitter.release_dropped()
            assert len(told) == len(set(told))
            assert len(keys & set(told)) == number + 1
            assert not session._recorder.log.dropped


def opened_by_a_generator(session: Any) -> Iterator[None]:
    with session:
        yield


def test_blocks_and_starts_that_end_in_any_order_leave_nothing_ambient() -> None:
    for begin in (opened_by_a_generator, lambda session: iter([session.start()])):
        first, second, third = rg.Session(), rg.Session(), rg.Session()
        blocks = [begin(one) for one in (first, second, third)]
        for block in blocks:
            next(block)
        made = rg.tensor([1.0]) + 1.0
        assert third.explain().plan is not None
        for session, block in zip((second, first, third), (blocks[1], blocks[0], blocks[2]), strict=True):
            next(block, None)
            session.close()
        assert made.tolist() == [2.0]
        assert (rg.tensor([1.0]) + 1.0).tolist() == [2.0]
        assert second.last_run is first.last_run is None


def test_a_session_that_another_thread_has_closed_is_left_by_closing_it_here_too() -> None:
    session = rg.Session().start()
    thread = threading.Thread(target=session.close)
    thread.start()
    thread.join()
    with pytest.raises(SessionError, match=r"close\(\) it here, too"):
        _ = rg.tensor([1.0]) + 1.0
    session.close()
    assert (rg.tensor([1.0]) + 1.0).tolist() == [2.0]
