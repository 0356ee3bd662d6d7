"""A session belongs to the process that opened it: every use in a forked one says so at once, and changes nothing."""

from __future__ import annotations

import json
import threading
from typing import Any, cast

import numpy as np
import pytest

import raygrad as rg

from .forks import in_child

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

REFUSED = "SessionError: this session belongs to process "


class Double(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 2}, {"workers": 2, "strict": True}])
def test_every_use_of_a_session_in_a_forked_process_says_whose_it_is(options: dict[str, Any]):
    x = rg.tensor(np.arange(3.0), requires_grad=True)
    with rg.Session(**options) as session:
        read = Double.apply(x)
        assert read.tolist() == [0.0, 2.0, 4.0]
        pending = Double.apply(x)
        loss = (pending * pending).sum()
        run = session.run(loss)
        step = session.compile(lambda a: a * 2.0)
        parameter = rg.tensor(np.ones(3))
        uses: dict[str, Any] = {
            "apply": lambda: Double.apply(x),
            "operation": lambda: x * 2.0,
            "apply to a pending value": lambda: Double.apply(pending),
            "operation on a pending value": lambda: pending + 1.0,
            "read": pending.tolist,
            "item": loss.item,
            "backward": loss.backward,
            "grad": lambda: rg.autograd.grad(loss, x),
            "in place": lambda: parameter.add_(1.0),
            "close": session.close,
            "close at once": lambda: session.close(discard=True),
            "run": session.run,
            "wait": run.wait,
            "done": run.done,
            "enter": session.__enter__,
            "compiled": lambda: step(x),
            "explain": session.explain,
            "put": lambda: session.put(np.ones(3)),
            "stored bytes": session.stored_bytes,
            "saved bytes": lambda: session.saved_bytes,
            "deferred": lambda: session.deferred().__enter__(),
        }
        said = {name: in_child(use) for name, use in uses.items()}
        assert {name: text for name, text in said.items() if not text.startswith(REFUSED)} == {}
        assert "multiprocessing.get_context('spawn')" in said["apply"]
        loss.backward()
        assert x.grad is not None
        np.testing.assert_array_equal(x.grad.numpy(), 8 * np.arange(3.0))


def test_a_forked_process_has_what_was_read_and_may_leave_the_block_and_open_a_session():
    x = rg.tensor(np.arange(3.0))
    session = rg.Session(workers=2).start()
    read = x * 3.0
    read.numpy()

    def child() -> object:
        session.__exit__(None, None, None)
        with rg.Session(workers=1):
            own = (rg.tensor(read.numpy()) + 1.0).numpy().tolist()
        return read.numpy().tolist(), own, (x + 1.0).numpy().tolist()

    assert in_child(child) == str(([0.0, 3.0, 6.0], [1.0, 4.0, 7.0], [1.0, 2.0, 3.0]))
    assert (x * 2.0).numpy().tolist() == [0.0, 2.0, 4.0], "the session goes on in its own process"
    session.close()


def test_a_session_of_a_forked_process_refuses_values_of_its_parents():
    x = rg.tensor(np.arange(3.0))
    with rg.Session(workers=2):
        pending = x * 2.0

        def child() -> object:
            with rg.Session():
                return (pending * 2.0).tolist()

        assert in_child(child).startswith(REFUSED)


def test_a_fork_beside_threads_that_hold_the_locks_of_a_session_does_not_hang():
    x = rg.tensor(np.arange(3.0))
    with rg.Session(workers=2) as session:
        pending = x * 2.0
        held, release = threading.Event(), threading.Event()

        def hold() -> None:
            with session._log.lock, cast("Any", session._driver)._lock, cast("Any", session._driver)._waiter:
                held.set()
                release.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        try:
            assert in_child(lambda: x * 2.0).startswith(REFUSED)
            assert in_child(pending.detach().numpy).startswith(REFUSED)
            assert in_child(session.close).startswith(REFUSED)
        finally:
            release.set()
            thread.join()
        assert pending.detach().numpy().tolist() == [0.0, 2.0, 4.0]


class Forking(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        said = in_child(lambda: (rg.tensor(x.numpy()) + 1.0).numpy().tolist())
        return rg.tensor(np.array(json.loads(said)))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


@pytest.mark.parametrize("workers", [1, 2])
def test_user_code_of_a_worker_may_fork(workers: int):
    with rg.Session(workers=workers):
        assert Forking.apply(rg.tensor(np.arange(2.0))).numpy().tolist() == [1.0, 2.0]
