"""Faults in sessions of one process: what needs a process is refused, and the others happen once."""

from __future__ import annotations

import time
from typing import Any

import pytest

import raygrad as rg
from raygrad import chaos
from raygrad.errors import SessionError


@pytest.fixture(params=[{"workers": 1}, {"workers": 2, "strict": True}], ids=["in-process", "strict"])
def session(request: pytest.FixtureRequest) -> Any:
    with rg.Session(**request.param) as opened:
        yield opened


@pytest.mark.parametrize("point", ["call", "node", "stored"])
def test_a_raised_fault_fails_the_run_like_user_code_and_happens_once(session: Any, point: Any) -> None:
    x = rg.ones(3)
    with chaos.inject(session, chaos.Raise(0, chaos.Point(point), "drawn")) as injected:
        with pytest.raises(chaos.InjectedError, match="drawn"):
            (x * 2.0).tolist()
        assert (x * 3.0).tolist() == [3.0, 3.0, 3.0]
    (happened,) = injected.happened
    assert happened.fault == chaos.Raise(0, chaos.Point(point), "drawn")
    assert abs(happened.at - time.time()) < 60


def test_a_delay_takes_its_time_at_the_occurrence_it_names(session: Any) -> None:
    x = rg.ones(3)
    with chaos.inject(session, chaos.Delay("worker 0", chaos.Point("call", 2), 0.2)) as injected:
        (x * 2.0).tolist()
        assert not injected.happened
        began = time.perf_counter()
        assert (x * 3.0).tolist() == [3.0, 3.0, 3.0]
        assert time.perf_counter() - began >= 0.2
        assert injected.happened


def test_no_fault_happens_after_the_block(session: Any) -> None:
    with chaos.inject(session, chaos.Raise(0, chaos.Point("node", 2))):
        (rg.ones(3) * 2.0).tolist()
    assert (rg.ones(3) * 2.0 + 1.0).tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize(
    "fault",
    [
        chaos.Kill(0, chaos.Point("node")),
        chaos.Stop(0, chaos.Point("node")),
        chaos.DropReply(0, chaos.Point("stored")),
        chaos.Delay(0, chaos.Point("reply")),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_what_needs_a_process_is_refused_before_anything_is_injected(session: Any, fault: chaos.Fault) -> None:
    first = chaos.Raise(0, chaos.Point("node"))
    with pytest.raises(SessionError, match=r"workers that are processes of their own.*rg\.Session\(.ray.\)"):
        chaos.inject(session, first, fault).__enter__()
    assert (rg.ones(2) * 2.0).tolist() == [2.0, 2.0]


def test_only_faults_of_workers_that_exist_are_injected_into_sessions(session: Any) -> None:
    with pytest.raises(TypeError, match="takes a Session first, not int"):
        chaos.inject(3, chaos.Raise(0, chaos.Point("node")))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes faults like"):
        chaos.inject(session, "kill")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"chaos\.Raise\(worker, \.\.\.\)"):
        chaos.inject(session, chaos.Raise(7, chaos.Point("node"))).__enter__()
    with pytest.raises(ValueError, match="there is no 'worker 9'"):
        chaos.inject(session, chaos.Raise("worker 9", chaos.Point("node"))).__enter__()
    block = chaos.inject(session)
    with block, pytest.raises(SessionError, match="entered once"):
        block.__enter__()
