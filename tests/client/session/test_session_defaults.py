"""What a session is given that names no address, and the session that stands by for programs without one."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.client.session.explain import preview_submissions
from raygrad.client.session.session import ambient
from raygrad.client.session.session_defaults import after_open, before_open, with_defaults
from raygrad.client.session.standby import StandbySession
from raygrad.errors import RunCancelled
from raygrad.report.explanation import Explanation


@pytest.mark.parametrize(
    ("environment", "given", "found"),
    [
        ({}, (None, None), ("local", None)),
        ({"RAYGRAD_ADDRESS": "ray"}, (None, 3), ("ray", 3)),
        ({"RAYGRAD_ADDRESS": "ray", "RAYGRAD_WORKERS": "2"}, (None, None), ("ray", 2)),
        ({"RAYGRAD_ADDRESS": "ray", "RAYGRAD_WORKERS": "2"}, (None, (1, 4)), ("ray", (1, 4))),
        ({"RAYGRAD_ADDRESS": "ray", "RAYGRAD_WORKERS": "2"}, ("local", None), ("local", None)),
        ({"RAYGRAD_ADDRESS": "", "RAYGRAD_WORKERS": ""}, (None, None), ("local", None)),
    ],
)
def test_the_environment_holds_for_a_session_that_names_no_address(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], given: tuple[Any, Any], found: tuple[Any, Any]
):
    for name in ("RAYGRAD_ADDRESS", "RAYGRAD_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert with_defaults(*given, {}) == (*found, {})


@pytest.mark.parametrize(
    ("environment", "address", "given", "found"),
    [
        ({"RAYGRAD_ADDRESS": "wss://a:1", "RAYGRAD_CA": "c.pem"}, None, {}, {"ca": "c.pem"}),
        ({"RAYGRAD_ADDRESS": "wss://a:1", "RAYGRAD_CA": "c.pem"}, None, {"ca": "d.pem"}, {"ca": "d.pem"}),
        ({"RAYGRAD_ADDRESS": "ws://a:1", "RAYGRAD_CA": "c.pem"}, None, {}, {}),
        ({"RAYGRAD_ADDRESS": "ws://a:1", "RAYGRAD_ALLOW_PICKLE": "1"}, None, {}, {"allow_pickle": True}),
        ({"RAYGRAD_ADDRESS": "ws://a:1", "RAYGRAD_ALLOW_PICKLE": "0"}, None, {}, {"allow_pickle": False}),
        ({"RAYGRAD_ADDRESS": "ws://a:1", "RAYGRAD_ALLOW_PICKLE": "1"}, "ws://b:1", {}, {}),
        ({"RAYGRAD_ADDRESS": "local", "RAYGRAD_ALLOW_PICKLE": "1", "RAYGRAD_CA": "c.pem"}, None, {}, {}),
    ],
)
def test_the_environment_trusts_the_service_that_it_names_alone(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], address: str | None, given: dict, found: dict
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert with_defaults(address, None, given)[2] == found


def test_a_word_that_neither_allows_nor_refuses_pickles_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAYGRAD_ADDRESS", "ws://127.0.0.1:1")
    monkeypatch.setenv("RAYGRAD_ALLOW_PICKLE", "yes")
    with pytest.raises(ValueError, match="RAYGRAD_ALLOW_PICKLE takes 0 or 1, got 'yes'"):
        rg.Session()


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "100001", "²"])
def test_a_number_of_workers_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str):
    monkeypatch.setenv("RAYGRAD_WORKERS", text)
    with pytest.raises(ValueError, match="RAYGRAD_WORKERS takes a whole number"):
        rg.Session()


def test_a_standby_session_opens_when_something_is_recorded_and_leaves_nothing_behind():
    standby = StandbySession()
    standby.enter()
    assert ambient() is None
    y = rg.ones(2) * 3
    session = ambient()
    assert session is not None
    standby.finish(discard=False)
    assert ambient() is None
    assert y.numpy().tolist() == [3.0, 3.0]
    assert not before_open
    assert not after_open
    standby.finish(discard=False)  # again: nothing is left to do


def test_a_standby_session_that_nothing_needed_never_opens():
    standby = StandbySession()
    standby.enter()
    standby.finish(discard=False)
    assert ambient() is None
    assert (rg.ones(2) * 2).numpy().tolist() == [2.0, 2.0]


def test_submissions_are_previewed_and_not_sent_where_that_raises():
    seen: list[Explanation] = []

    class Enough(Exception):
        pass

    def show(plan: Explanation) -> None:
        seen.append(plan)
        if len(seen) == 2:
            raise Enough

    with rg.Session(workers=1) as session:
        preview_submissions(session, show)
        x: Any = rg.ones(3, requires_grad=True)
        (x * 2).sum().backward()
        assert x.grad is not None
        assert x.grad.numpy().tolist() == [2.0, 2.0, 2.0]
        step = session.compile(lambda: (x * 5).sum())
        with pytest.raises(Enough):
            step()
        later = rg.ones(3) * 7
        seen.pop()
        with pytest.raises(Enough):
            later.numpy()
        with pytest.raises(RunCancelled, match="previewed"):
            later.numpy()
        session.close(discard=True)
    assert [plan.plan.segments != () for plan in seen] == [True, True]
