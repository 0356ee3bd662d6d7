"""The session on a real local Ray: two workers, errors, a killed process, and what Ray itself says is stored."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.session.session import executor_of
from raygrad.errors import PlanError, WorkerLost

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def session(ray_started: Any) -> Any:
    session = rg.Session("ray", workers=2)
    yield session
    session.close(discard=True)


@pytest.fixture
def recording(session: Any) -> Any:
    """Make the module's session ambient for one test, and leave it open."""
    from raygrad.autograd.core.modes import state

    state.recorder = session._recorder
    yield session
    state.recorder = None


class Where(rg.autograd.Function):
    """Doubles, and tells the process that ran it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        rg.emit("pid", os.getpid())
        ctx.save_for_backward(x)
        return rg.from_numpy(x.numpy() * 2.0)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        rg.emit("pid", os.getpid())
        return rg.from_numpy(grad.numpy() * 2.0)


class Fails(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, where: str) -> Any:
        ctx.where = where
        if where == "forward":
            raise FloatingPointError("in forward", 7)
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.where == "backward":
            raise FloatingPointError("in backward", 7)
        return grad, None


def failing_hook(grad: Any) -> Any:
    raise FloatingPointError("in hook", 7)


def test_forward_backward_and_hooks_run_in_the_workers(recording: Any) -> None:
    with rg.place(worker=0):
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        a = Where.apply(x)
        a.register_hook(lambda grad: grad * 3.0)
    with rg.place(worker=1):
        b = Where.apply(a)
        b.register_hook(lambda grad: grad * 5.0)
    b.sum().backward()
    assert x.grad.numpy().tolist() == [60.0, 60.0]
    run = recording.last_run.wait()
    assert len(run.hooks) == 2
    assert os.getpid() not in run.hooks


def test_hk_17_what_a_hook_after_accumulation_applies_runs_in_the_workers(recording: Any) -> None:
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    Where.apply(x)  # learned here
    called: list[int] = []

    def move(leaf: Any) -> None:
        called.append(os.getpid())
        with rg.no_grad():
            leaf.sub_(Where.apply(leaf.grad))

    x.register_post_accumulate_grad_hook(move)
    (x * 3.0).sum().backward()
    assert x.tolist() == [-5.0, -4.0]
    run = recording.last_run.wait()
    assert called == [os.getpid()]
    assert {pid for _, pid in run.emits}.isdisjoint(called)


def test_dr_06_a_hook_that_fills_a_list_of_the_client_is_warned_of(recording: Any) -> None:
    seen: list[Any] = []

    def keep(grad: Any) -> None:
        seen.append(grad)

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(UserWarning, match=r"'keep' captures 'seen'.*client=True"):
        x.register_hook(keep)
    x.register_hook(keep, client=True)
    (x * 3.0).sum().backward()
    recording.last_run.wait()
    assert [grad.tolist() for grad in seen] == [[3.0, 3.0]]


class Imprecise(UserWarning):
    """A warning with attributes of its own."""

    def __init__(self, digits: int) -> None:
        super().__init__(f"only {digits} digits")
        self.digits = digits


class Warns(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        warnings.warn("in forward", DeprecationWarning, stacklevel=1)
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        for _ in range(3):
            warnings.warn(Imprecise(3), stacklevel=1)
        return grad * 2.0


def line_of(text: str) -> int:
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_warnings_come_to_the_client_once_per_run_with_their_own_place(recording: Any) -> None:
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            Warns.apply(Warns.apply(x)).sum().backward()
            x.grad.tolist()
        mine = [one for one in seen if one.filename == __file__]
        assert {(one.category, one.lineno) for one in mine} == {
            (DeprecationWarning, line_of('"in forward", Dep')),
            (Imprecise, line_of("warn(Imprecise(3)")),
        }
        assert [one.message.digits for one in mine if isinstance(one.message, Imprecise)] == [3]
    assert {warned.category for record in recording.last_run.records for warned in record.warned} >= {"Imprecise"}


def test_a_warning_that_the_client_makes_an_error_fails_the_run_as_any_exception(recording: Any) -> None:
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Imprecise)
        warnings.simplefilter("ignore", DeprecationWarning)
        loss = Warns.apply(x).sum()
        loss.backward()
        with pytest.raises(Imprecise, match="only 3 digits") as caught:
            x.grad.tolist()
        assert any("raised by node" in note for note in caught.value.__notes__)
        assert x.grad is None
        assert recording.last_run.failed


def test_a_warning_that_is_an_error_is_raised_at_the_end_at_the_latest(ray_started: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        session = rg.Session("ray", workers=1).start()
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        Warns.apply(x).sum().backward()
        with pytest.raises(Imprecise):
            session.close()
        assert x.grad is None


@pytest.mark.parametrize("where", ["forward", "backward", "hook"])
def test_a_remote_exception_is_the_users_own_and_says_where(recording: Any, where: str) -> None:
    def program() -> Any:
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        y = Fails.apply(x, where)
        if where == "hook":
            y.register_hook(failing_hook)
        y.sum().backward()
        return x.grad.numpy()

    with pytest.raises(FloatingPointError) as caught:
        program()
    assert caught.value.args == (f"in {where}", 7)
    notes = "\n".join(caught.value.__notes__)
    for piece in (
        "Fails" if where != "hook" else "failing_hook",
        "worker",
        "float32[2]",
        "test_session_on_ray.py",
        "raise Floating",
    ):
        assert piece in notes, notes
    assert (rg.tensor([1.0]) * 2.0).numpy().tolist() == [2.0]


class OfMesh(rg.autograd.Function):
    """Uses what a process made for itself, and tells when it was made."""

    mesh = rg.worker_local(lambda: (threading.Lock(), time.monotonic_ns()))

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        lock, born = OfMesh.mesh()
        with lock:
            rg.emit("mesh", (os.getpid(), born))
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        rg.emit("mesh", (os.getpid(), OfMesh.mesh()[1]))
        return grad * 2


def test_h24_each_process_makes_its_own_once_and_keeps_it(recording: Any) -> None:
    seen: list[tuple[int, int]] = []
    recording.on("mesh", seen.append)
    for _ in range(2):
        for worker in (0, 1):
            with rg.place(worker=worker):
                x = rg.ones(3, requires_grad=True)
                OfMesh.apply(x).sum().backward()
                assert x.grad is not None
                assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert len(seen) == 8
    assert len(set(seen)) == 2
    assert len({pid for pid, _ in seen}) == 2


def test_h13_saved_tensors_leave_the_store_after_the_last_vjp(recording: Any) -> None:
    data = np.ones(500_000)

    class Keeps(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x * 3.0)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    x: Any = rg.tensor(data, requires_grad=True)
    float(Keeps.apply(x).sum().detach())  # shows that its context pickles: until then it stays on its worker (H10)
    loss = Keeps.apply(x).sum()
    assert float(loss.detach()) == data.size
    assert recording.saved_bytes >= data.nbytes
    assert recording.stored_bytes() >= data.nbytes
    loss.backward()
    assert float(x.grad[0]) == 3.0
    recording.last_run.wait()
    del loss
    deadline = time.monotonic() + 20
    while recording.saved_bytes and time.monotonic() < deadline:
        recording.poll()
    assert recording.saved_bytes == 0


def test_a_killed_worker_is_a_clear_error_within_ten_seconds_and_never_a_hang(ray_started: Any) -> None:
    class Dies(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            os.kill(os.getpid(), signal.SIGKILL)
            return x

    with rg.Session("ray", workers=1, retries=0) as session:
        x: Any = rg.tensor([1.0])
        (x * 2.0).numpy()
        started = time.monotonic()
        with pytest.raises(WorkerLost, match=r"worker 0 .* had been given 'Dies' \(\S*test_session_on_ray\.py:\d+ in"):
            Dies.apply(x).numpy()
        assert time.monotonic() - started < 10
        session.close(discard=True)


def test_h8_a_failure_in_step_three_of_five_leaves_the_parameters_of_step_two(recording: Any) -> None:
    class FailsAt(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, w: Any, step: Any) -> Any:
            ctx.save_for_backward(step)
            return w * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if float(ctx.saved_tensors[0]) == 3.0:
                raise ArithmeticError("third step")
            return grad, None

    def train(w: Any, steps: int) -> None:
        optimiser = rg.optim.SGD([w], lr=0.1, momentum=0.9)
        for step in range(1, steps + 1):
            optimiser.zero_grad()
            (FailsAt.apply(w, rg.tensor(float(step))) ** 2).sum().backward()
            optimiser.step()
        recording._waiter.wait_for_everything()

    two = rg.tensor([1.0, -2.0], dtype=rg.float64, requires_grad=True)
    train(two, 2)
    five = rg.tensor([1.0, -2.0], dtype=rg.float64, requires_grad=True)
    with pytest.raises(ArithmeticError, match="third step") as caught:
        train(five, 5)
    assert "dropped with it: run" in "\n".join(caught.value.__notes__)
    assert five.detach().numpy().tobytes() == two.detach().numpy().tobytes()


def test_ctrl_c_while_waiting_leaves_a_usable_session(recording: Any) -> None:
    class Slow(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            deadline = time.monotonic() + 2.0
            while time.monotonic() < deadline:
                pass
            return x * 2.0

    started = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    started.start()
    x: Any = rg.tensor([1.0])
    with pytest.raises(KeyboardInterrupt):
        Slow.apply(x)
    started.join()
    assert (x * 3.0).numpy().tolist() == [3.0]
    assert Slow.apply(x).numpy().tolist() == [2.0]


def test_a_session_without_retries_goes_on_with_the_workers_that_are_left(ray_started: Any) -> None:
    class DiesOnce(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, pid: int) -> Any:
            if os.getpid() == pid:
                os.kill(pid, signal.SIGKILL)
            ctx.save_for_backward(x)
            return rg.from_numpy(x.numpy() * 2.0)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x, None

    with rg.Session("ray", workers=3, worker_options={"num_cpus": 0.5}, retries=0) as session:
        x: Any = rg.tensor([1.0, 3.0], requires_grad=True)
        pids = executor_of(session).pids()
        with rg.place(worker=1), pytest.raises(WorkerLost, match=r"worker 1.*goes on with the 2 workers that are left"):
            DiesOnce.apply(x, pids[1]).tolist()
        for step in range(20):  # many branches, so that each worker would get some
            x.grad = None
            loss: Any = sum([DiesOnce.apply(x * float(k), 0).sum() for k in range(6)])
            loss.backward()
            grad: Any = x.grad
            assert grad.tolist() == [55.0, 165.0], step
        with rg.place(worker=1), pytest.raises(PlanError, match=r"must run on worker 1.*which is lost"):
            DiesOnce.apply(x, 0).tolist()
        session.close(discard=True)
