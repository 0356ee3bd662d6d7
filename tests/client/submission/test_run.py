"""A run tells its plan, its progress and what came back."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.errors import SessionError, WaitTimeout


def test_a_run_ends_and_says_so() -> None:
    with rg.Session(workers=1) as session:
        y = rg.tensor([1.0]) * 2.0
        run = session.run(y)
        assert run.wait(10).done()
        assert "finished" in repr(run)
        assert run.records[0].status == "done"
        assert run.plan.rows()[0].forward_nodes == 1


def test_a_run_that_is_dropped_with_its_session_says_so() -> None:
    session = rg.Session(workers=2).start()
    run = session.run(rg.ones(3) * 2.0)
    session.close(discard=True)
    assert run.done()
    assert run.report().state == "dropped"
    with pytest.raises(SessionError, match=r"run 1 had not ended when its session was closed"):
        run.wait()


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


def test_what_was_read_of_a_device_or_held_at_the_end_is_listed() -> None:
    with use_stand_in(2) as devices:
        with rg.Session(workers=3, gpus=2, strict=True) as session:
            x = rg.tensor([1.0, 2.0])
            y = x.to("cuda:0") * 3.0
            held = (y * y).to("cuda:1")
            run = session.run(held).wait(10)
            assert run.report().brought == ()
            devices.forget_transfers()
            y.read()
            y.read()
            assert [(one.worker, one.device, one.bytes) for one in run.report().brought] == [(0, "cuda:0", 8)]
        report = run.report()
        assert devices.transfers.to_host == len(report.brought) == 2
        assert [(report.graph.label(one.node), one.device) for one in report.brought] == [
            ("mul", "cuda:0"),
            ("to_device", "cuda:1"),
        ]
        table = next(one for one in report.tables() if one.title.startswith("Brought to you"))
        assert [row[:4] for row in table.rows] == [
            ("mul", "worker 0", "cuda:0", "8 B"),
            ("to_device", "worker 1", "cuda:1", "8 B"),
        ]
        assert all("test_run.py" in row[4] for row in table.rows)
        assert report.as_dict()["brought"][0]["device"] == "cuda:0"


def test_what_stays_in_this_process_leaves_no_device() -> None:
    with use_stand_in(1), rg.Session(workers=2, gpus=1) as session:
        y = rg.tensor([1.0, 2.0]).to("cuda") * 3.0
        run = session.run(y)
        y.read()
        assert run.report().brought == ()


def test_hooks_of_all_segments_of_a_process_are_counted_together() -> None:
    with rg.Session(workers=1) as session:
        run = session.run(rg.ones(2) * 2.0).wait()
        answers: Any = [SimpleNamespace(pid=pid, hooks=hooks) for pid, hooks in ((1, (4, 5)), (2, (7,)), (1, (6,)))]
        run.records, before = answers, run.records
        assert run.hooks == {1: 3, 2: 1}
        run.records = before


def test_a_wait_of_no_seconds_ends_at_once_whatever_the_session_waits() -> None:
    release = threading.Event()

    class Slow(rg.autograd.Function):
        infer = staticmethod(lambda x: (x.shape, x.dtype))

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            assert release.wait(10)
            return x * 1.0

    with rg.Session(workers=1) as session:
        y = Slow.apply(rg.ones(2))
        run = session.run()
        try:
            with pytest.raises(WaitTimeout):
                run.wait(timeout=0)
        finally:
            release.set()
        assert y.tolist() == [1.0, 1.0]
        assert run.wait(timeout=0).done()
