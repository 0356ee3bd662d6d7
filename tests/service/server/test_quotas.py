"""What is over a quota of a service is refused by an error that names it, and the session goes on."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import ServiceError
from raygrad.service import Server, ServerOptions, admin
from raygrad.service.server.quotas import Rate

from .. import allowed_programs as allowed
from ..servers import here as here, only_session


def served(**options: Any) -> Server:
    return Server(ServerOptions(port=0, workers=1, **options))


def works() -> bool:
    return (rg.ones(2) + 1).numpy().tolist() == [2.0, 2.0]


def hurries(count: int) -> None:
    for _ in range(count):
        assert works()


def test_too_many_nodes() -> None:
    with served(max_nodes=20) as server, rg.Session(server.url):
        x = rg.ones(3)
        for _ in range(30):
            x = x.tanh()
        with pytest.raises(ServiceError, match=r"30 nodes is over the 20.*--max-nodes") as raised:
            x.numpy()
        assert raised.value.code == "nodes"
        assert works()


def test_too_many_bytes() -> None:
    with served(max_held=1_000_000) as server, rg.Session(server.url):
        kept = [rg.tensor(np.zeros(50_000)) + n for n in range(1)]  # 400 kB there, and as much on its way
        kept[0].sum().item()
        with pytest.raises(ServiceError, match=r"holds 400,000 bytes.*1,000,000.*--max-held") as raised:
            (rg.tensor(np.zeros(50_000)) * 2).numpy()
        assert raised.value.code == "bytes"
        del kept
        assert works()
        for _ in range(4):  # what was let go of counts no more, nor what runs had sent
            assert (rg.tensor(np.zeros(50_000)) * 2).numpy().shape == (50_000,)


def held_by_driver(server: Server) -> int:
    """How many values the drivers of a service keep for its clients."""
    return sum([len(run.places) for run in only_session(server)._driver._runs.values()])


@pytest.mark.usefixtures("here")
def test_what_a_client_lets_go_of_goes_with_a_submission_that_is_refused() -> None:
    with served(max_held=1_000_000) as server, rg.Session(server.url):
        kept = rg.tensor(np.zeros(50_000)) + 1
        kept.sum().item()
        assert held_by_driver(server)
        del kept  # told with the next submission
        with pytest.raises(ServiceError, match="--max-held"):
            (rg.tensor(np.zeros(200_000)) * 2).numpy()
        assert not held_by_driver(server)
        assert works()
    with served(max_rate=20.0) as server, rg.Session(server.url):
        several = [rg.ones(3) + n for n in range(5)]
        several[-1].sum().item()
        with pytest.raises(ServiceError, match="--max-rate"):
            hurries(200)
        assert held_by_driver(server) >= 5
        del several
        with pytest.raises(ServiceError, match="--max-rate"):
            hurries(200)
        time.sleep(1.1)
        assert held_by_driver(server) < 5


def test_a_failed_run_holds_nothing() -> None:
    with served(max_held=1_000_000, allow=(allowed.__name__,)) as server, rg.Session(server.url):
        for _ in range(4):
            x = rg.tensor(np.zeros(50_000)) + 1
            with pytest.raises(allowed.Broken):
                allowed.Refusing.apply(x, 1)
            del x
        assert works()


def test_too_many_messages() -> None:
    with served(max_rate=50.0) as server, rg.Session(server.url) as session:
        with pytest.raises(ServiceError, match=r"50 messages per second.*--max-rate") as raised:
            hurries(200)
        assert raised.value.code == "rate"
        session.cancel()  # always goes
        time.sleep(1.1)
        assert works()


def test_too_many_seconds() -> None:
    with served(max_run_seconds=0.5, allow=(allowed.__name__,)) as server, rg.Session(server.url):
        began = time.monotonic()
        with pytest.raises(ServiceError, match=r"gives each run 0\.5 s.*--max-run-seconds") as raised:
            allowed.Sleeping.apply(rg.ones(2), 20.0).numpy()
        assert raised.value.code == "seconds"
        assert time.monotonic() - began < 10
        assert works()


def test_the_clients_own_limit_stays_its_own() -> None:
    with served(max_run_seconds=20.0, allow=(allowed.__name__,)) as server:
        with rg.Session(server.url, run_timeout=0.5), pytest.raises(rg.errors.DeadlineExceeded):
            allowed.Sleeping.apply(rg.ones(2), 20.0).numpy()


def test_tokens_have_sessions_of_their_own() -> None:
    with served(token="first\nsecond", max_sessions_per_token=1) as server:
        with rg.Session(server.url, token="first"):
            with pytest.raises(ServiceError, match=r"1 sessions of this token.*--max-sessions-per-token") as raised:
                rg.Session(server.url, token="first")
            assert raised.value.code == "sessions"
            (mine,) = admin.sessions(server.url, "first")
            with rg.Session(server.url, token="second"):
                assert works()
                (other,) = admin.sessions(server.url, "second")
                assert other["session"] != mine["session"]
                with pytest.raises(ServiceError, match="no session"):
                    admin.cancel(server.url, "second", mine["session"])
        until = time.monotonic() + 10
        while admin.sessions(server.url, "first") and time.monotonic() < until:
            time.sleep(0.02)
        with rg.Session(server.url, token="first"):
            assert works()
        with pytest.raises(ServiceError, match="refuses the token"):
            rg.Session(server.url, token="firstsecond")


def test_a_rate_lets_through_what_is_slow_enough() -> None:
    now = [0.0]
    rate = Rate(4.0, lambda: now[0])
    assert [rate.excess() for _ in range(4)] == [0.0] * 4
    assert rate.excess() == pytest.approx(0.25)
    now[0] += 0.25
    assert rate.excess() == 0.0
    assert rate.excess() > 0
    now[0] += 100.0
    assert [rate.excess() for _ in range(5)][-1] > 0


@pytest.mark.parametrize(
    "given",
    [
        {"max_nodes": 0},
        {"max_rate": 0.0},
        {"max_rate": float("inf")},
        {"max_held": -1},
        {"max_run_seconds": -1.0},
        {"max_sessions_per_token": 0},
        {"drain_seconds": -1.0},
    ],
)
def test_quotas_that_are_none_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        ServerOptions(**given)
