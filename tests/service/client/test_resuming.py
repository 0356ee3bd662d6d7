"""A session goes on over another connection: nothing is lost, and nothing comes or runs twice."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import ServiceError
from raygrad.service import Server, ServerOptions, admin

from ..proxies import CuttingProxy
from ..servers import server_process

CUTS = int(os.environ.get("RAYGRAD_CUTS", "30"))


class Counted(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, number: int) -> Any:
        rg.emit("forward", number)
        rg.emit("sum", float(x.sum()))
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        rg.emit("backward", 1)
        return grad * 2, None


class Waits(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        time.sleep(0.5)
        return x + 1

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with server_process(token="secret", allow_pickle=True, idle_timeout=20.0) as (url, _):
        yield url


@pytest.fixture
def proxy(served: str) -> Iterator[CuttingProxy]:
    with CuttingProxy(served) as made:
        yield made


def stepped(steps: int, session: rg.Session | None) -> tuple[list[tuple[str, Any]], bytes]:
    """Train for some steps; return what was emitted, and the parameter."""
    emitted: list[tuple[str, Any]] = []
    if session is not None:
        for name in ("forward", "sum", "backward"):
            session.on(name, lambda value, name=name: emitted.append((name, value)))
    weight = rg.tensor(np.linspace(0.0, 1.0, 5000), requires_grad=True)
    optimizer = rg.optim.SGD([weight], lr=0.01)
    for number in range(steps):
        optimizer.zero_grad()
        Counted.apply(weight, number).sin().sum().backward()
        optimizer.step()
    return emitted, weight.detach().numpy().tobytes()


def test_cuts_at_random_moments_lose_and_double_nothing(proxy: CuttingProxy) -> None:
    expected = stepped(CUTS, None)[1]
    draw, done = random.Random(0), threading.Event()

    def cut() -> None:
        for _ in range(CUTS):
            proxy.left = int(draw.expovariate(1 / 40_000)) + 1
            until = time.monotonic() + draw.random() * 0.3
            while proxy.armed() and time.monotonic() < until and not done.is_set():
                time.sleep(0.002)
            proxy.cut()
            if done.wait(0.05):
                return

    with rg.Session(proxy.url, token="secret", allow_pickle=True, workers=2) as session:
        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            emitted, found = stepped(CUTS, session)
        finally:
            done.set()
            cutter.join()
    assert proxy.connections > CUTS // 4
    assert found == expected
    assert [value for name, value in emitted if name == "forward"] == list(range(CUTS))
    assert sum(value for name, value in emitted if name == "backward") == CUTS


def test_what_ends_while_nobody_is_connected_arrives_later(proxy: CuttingProxy) -> None:
    with rg.Session(proxy.url, token="secret", allow_pickle=True):
        y = Waits.apply(rg.tensor([1.0]))
        value = y * 2
        timer = threading.Timer(0.2, proxy.cut)
        timer.start()
        assert value.item() == 4.0
        timer.join()
    assert proxy.connections == 2


def test_large_arrays_pass_over_broken_connections(proxy: CuttingProxy) -> None:
    x = np.random.default_rng(0).standard_normal(3_000_000)
    with rg.Session(proxy.url, token="secret", allow_pickle=True):
        proxy.left = 10_000_000
        doubled = rg.tensor(x) * 2
        result = doubled.numpy()
        proxy.left = 10_000_000
        again = (doubled + 0.0).numpy()
        assert result.tobytes() == again.tobytes() == (x * 2).tobytes()
    assert proxy.connections >= 2


def test_a_service_out_of_reach_is_told_within_seconds(proxy: CuttingProxy) -> None:
    session = rg.Session(proxy.url, token="secret", allow_pickle=True).start()
    try:
        proxy.refuse()
        proxy.cut()
        began = time.monotonic()
        with pytest.raises(ServiceError, match="open a new one") as raised:
            (rg.tensor([1.0]) + 1).numpy()
        assert raised.value.code == "lost"
        assert time.monotonic() - began < 5
    finally:
        session.close(discard=True)


def test_a_service_that_was_started_anew_has_the_session_no_more() -> None:
    with Server(ServerOptions(port=0, workers=1)) as server:
        port = server.port
        with CuttingProxy(server.url) as proxy:
            session = rg.Session(proxy.url).start()
            assert (rg.tensor([1.0]) + 1).item() == 2.0
            server.close()
            proxy.cut()
            with Server(ServerOptions(port=port, workers=1)):
                began = time.monotonic()
                with pytest.raises(ServiceError, match="journal"):
                    (rg.tensor([1.0]) + 1).numpy()
                assert time.monotonic() - began < 5
                session.close(discard=True)


def test_a_training_goes_on_from_its_journal_at_a_server_that_was_killed_and_started_anew(tmp_path: Path) -> None:
    killed_at: list[float] = []

    def train(url: str, journal: Path | None, kill: Callable[[], None] | None) -> tuple[list[int], bytes]:
        """Return the steps that were made, and the parameter; `kill` is called in the sixth."""
        weight = rg.tensor(np.linspace(0.0, 1.0, 500), requires_grad=True)
        optimizer = rg.optim.Adam([weight], lr=0.1)
        made: list[int] = []
        with rg.Session(url, token="secret", allow_pickle=True, journal=journal) as session:
            session.track(weight=weight, optimizer=optimizer)
            for step in session.steps(10):
                made.append(step)
                if step == 5 and kill is not None:
                    kill()
                    killed_at.append(time.monotonic())
                optimizer.zero_grad()
                Counted.apply(weight, step).sin().sum().backward()
                optimizer.step()
        return made, weight.detach().numpy().tobytes()

    journal = tmp_path / "journal"
    with server_process(token="secret", allow_pickle=True) as (url, process):
        undisturbed = train(url, None, None)[1]
        with pytest.raises(ServiceError, match="journal"):
            train(url, journal, process.kill)
        assert time.monotonic() - killed_at[0] < 5
        process.wait()
    with server_process(token="secret", allow_pickle=True, port=int(url.rpartition(":")[2])) as (again, _):
        assert again == url
        assert train(url, journal, None) == (list(range(5, 10)), undisturbed)


def test_a_session_is_kept_for_the_grace_and_no_longer() -> None:
    with Server(ServerOptions(port=0, workers=1, grace=1.0)) as server, CuttingProxy(server.url) as proxy:
        session = rg.Session(proxy.url).start()
        assert (rg.tensor([1.0]) + 1).item() == 2.0
        proxy.refuse()
        proxy.cut()
        assert len(admin.sessions(server.url)) == 1
        until = time.monotonic() + 10
        while admin.sessions(server.url) and time.monotonic() < until:
            time.sleep(0.05)
        assert admin.sessions(server.url) == []
        session.close(discard=True)


def test_who_does_not_know_the_key_of_a_session_cannot_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(ServerOptions(port=0, workers=1)) as server, CuttingProxy(server.url) as proxy:
        session = rg.Session(proxy.url).start()
        assert (rg.tensor([1.0]) + 1).item() == 2.0
        for host in server._hosts.values():
            monkeypatch.setattr(host, "identity", host.identity._replace(key="another"))
        proxy.cut()
        with pytest.raises(ServiceError, match="ended"):
            (rg.tensor([1.0]) + 1).numpy()
        session.close(discard=True)
