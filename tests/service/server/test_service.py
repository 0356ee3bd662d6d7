"""Sessions on a service behave as sessions here do; what must not come in is refused, with one line in the log."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from websockets.sync.client import connect

import raygrad as rg
from raygrad.errors import RunCancelled, ServiceError
from raygrad.service import Server, ServerOptions, admin
from raygrad.service.client import opening, remote
from raygrad.service.protocol.messages import Learn
from raygrad.service.server import session_host

from ..servers import here as here, only_session, server_process


class Doubled(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        rg.emit("seen", float(x.sum()))
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Refuses(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        raise KeyError("not this one")

    @staticmethod
    def backward(ctx, grad):
        return grad


class Sleeps(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            time.sleep(0.01)
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad


@pytest.fixture(scope="module")
def trusting() -> Iterator[str]:
    """The address of a service that takes code by value."""
    with server_process(token="secret", allow_pickle=True) as (url, _):
        yield url


@pytest.fixture
def plain() -> Iterator[Server]:
    """A service of this process that takes no pickles."""
    with Server(ServerOptions(port=0, token="secret", workers=1, max_message=1 << 20, max_sessions=2)) as server:
        yield server


def trained(x: np.ndarray) -> tuple[float, np.ndarray]:
    w = rg.tensor(x, requires_grad=True)
    loss = ((w.exp() * 3).sin() @ w).sum()
    loss.backward()
    assert w.grad is not None
    return loss.item(), w.grad.numpy()


def code_of(error: pytest.ExceptionInfo[ServiceError]) -> str:
    return error.value.code


# ---- the same as elsewhere -----------------------------------------------------------------------------------------


def test_ops_give_the_bits_of_eager_without_pickle(plain: Server) -> None:
    x = np.random.default_rng(0).standard_normal(50)
    expected = trained(x)
    with rg.Session(plain.url, token="secret") as session:
        value, grad = trained(x)
        assert (value, grad.tobytes()) == (expected[0], expected[1].tobytes())
        assert session.last_run is not None
        assert "finished" in repr(session.last_run)


@pytest.mark.usefixtures("here")
def test_plans_go_by_what_runs_have_shown_from_the_first_ones_on_and_by_what_may_be_lost(plain: Server) -> None:
    with rg.Session(plain.url, token="secret", recovery_time=7.0):
        for _ in range(7):
            rg.tensor(np.arange(3)).sin().sum().item()
        served = only_session(plain)
        measured: Any = served._measured
        assert max([one.count for one in measured.kinds.values()]) >= 5, measured.kinds
        assert measured.costs().recovery_time == float("inf"), "nothing is lost with a worker of this process"


@pytest.mark.usefixtures("here")
def test_plans_go_by_how_long_they_took_themselves(plain: Server) -> None:
    with rg.Session(plain.url, token="secret") as session:
        for _ in range(5):
            rg.tensor(np.arange(3)).sin().sum().item()
        served = only_session(plain)
        assert session.last_run is not None
        span = served._measured.span_of(session.last_run.plan)
        assert span.count >= 3 <= span.measured, "the runs before the last one are learned from"


@pytest.mark.usefixtures("here")
def test_the_first_run_of_a_function_is_new_in_more_than_its_plan() -> None:
    with Server(ServerOptions(port=0, token="secret", workers=1, allow_pickle=True)) as server:
        with rg.Session(server.url, token="secret", allow_pickle=True):
            for _ in range(2):  # what the first has shown comes to the server before the second
                assert Doubled.apply(rg.tensor([1.0])).numpy().tolist() == [2.0]
            served = only_session(server)
            measured: Any = served._measured
            assert measured.kinds
            assert measured._news == 0


def test_functions_hooks_and_emits(trusting: str) -> None:
    with rg.Session(trusting, token="secret", allow_pickle=True) as session:
        x: Any = rg.tensor(np.arange(4.0), requires_grad=True)
        seen: list[float] = []
        session.on("seen", seen.append)
        y = Doubled.apply(x)
        y.register_hook(lambda grad: grad * 5)
        y.sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full(4, 10.0))
        assert seen == [6.0]


def test_code_by_value_is_sent_once_while_the_server_has_it(trusting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def counted(connection: Any, url: str, message: Any) -> None:
        sent.append(message)
        send(connection, url, message)

    send = remote.send
    monkeypatch.setattr(remote, "send", counted)
    monkeypatch.setattr(remote, "CODE_CACHE_SIZE", 2)

    def learned() -> int:
        return sum(isinstance(message, Learn) for message in sent)

    with rg.Session(trusting, token="secret", allow_pickle=True) as session:
        session.on("seen", lambda value: None)
        for _ in range(3):
            assert Doubled.apply(rg.tensor([1.0])).numpy().tolist() == [2.0]
        assert learned() == 1
        with pytest.raises(KeyError):
            Refuses.apply(rg.tensor([1.0])).numpy()
        assert learned() == 2
        assert Doubled.apply(rg.tensor([1.0])).numpy().tolist() == [2.0]
        assert learned() == 3, "it is no longer among those that were sent last"


def test_errors_keep_type_and_the_users_line(trusting: str) -> None:
    with rg.Session(trusting, token="secret", allow_pickle=True):
        with pytest.raises(KeyError, match="not this one") as raised:
            Refuses.apply(rg.tensor([1.0])).numpy()
        assert any(Path(__file__).name in note for note in raised.value.__notes__)


def test_errors_tell_of_nothing_that_happened_at_the_service_before(trusting: str) -> None:
    with rg.Session(trusting, token="secret", allow_pickle=True):
        with pytest.raises(KeyError, match="not this one") as raised:
            Refuses.apply(rg.tensor([1.0])).numpy()
        told: BaseException | None = raised.value
        while told is not None:
            assert "Empty" not in type(told).__name__
            told = told.__context__
        assert not any("served_session.py" in note or "_queue.Empty" in note for note in raised.value.__notes__)


def test_large_arrays_pass_both_ways(trusting: str) -> None:
    x = np.random.default_rng(1).standard_normal(6_000_000)
    with rg.Session(trusting, token="secret", allow_pickle=True):
        assert (rg.tensor(x) * 2).numpy().tobytes() == (x * 2).tobytes()


def test_a_server_holds_a_large_array_once_and_lets_go_of_it() -> None:
    nbytes = 128 << 20
    with server_process(workers=1) as (url, process), rg.Session(url):

        def memory(name: str) -> int:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

        assert (rg.tensor(np.ones(1 << 17)) + 1).sum().item() == 2 << 17  # what grows once has grown
        before = memory("VmRSS")
        assert rg.tensor(np.ones(nbytes // 8)).sum().item() == nbytes // 8
        assert memory("VmHWM") - before < nbytes + (64 << 20)
        assert memory("VmRSS") - before < 32 << 20


def test_a_run_can_be_cancelled(trusting: str) -> None:
    with rg.Session(trusting, token="secret", allow_pickle=True) as session:
        timer = threading.Timer(1.0, session.cancel)
        timer.start()
        began = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # it may run on for a moment
            with pytest.raises(RunCancelled):
                Sleeps.apply(rg.tensor([1.0], requires_grad=True)).numpy()
        timer.join()
        assert time.monotonic() - began < 15


# ---- who comes in --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_wrong_token_is_refused(plain: Server, token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAYGRAD_TOKEN", raising=False)
    with pytest.raises(ServiceError, match="token") as raised:
        rg.Session(plain.url, token=token)
    assert code_of(raised) == "token"


def test_the_token_of_the_environment_is_used(plain: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYGRAD_TOKEN", "secret")
    with rg.Session(plain.url):
        assert (rg.tensor([1.0]) + 1).item() == 2.0


def test_a_refusal_is_one_line_without_the_token(plain: Server) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("raygrad.service").addHandler(handler)
    try:
        with pytest.raises(ServiceError):
            rg.Session(plain.url, token="wrong-and-secret")
    finally:
        logging.getLogger("raygrad.service").removeHandler(handler)
    refused = [line for line in lines if "refused" in line]
    assert len(refused) == 1
    assert not any("wrong-and-secret" in line for line in lines)


def test_a_public_address_needs_a_token() -> None:
    with pytest.raises(ValueError, match="needs a token"):
        ServerOptions(host="0.0.0.0", port=0)


def test_another_version_is_refused(plain: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    real = opening.hello
    monkeypatch.setattr(opening, "hello", lambda **given: replace(real(**given), raygrad="0.0.1"))
    with pytest.raises(ServiceError, match=r"raygrad 0\.0\.1") as raised:
        rg.Session(plain.url, token="secret")
    assert code_of(raised) == "version"


def test_pickle_is_refused_by_either_side(plain: Server, trusting: str) -> None:
    with pytest.raises(ServiceError, match="takes no pickles"):
        rg.Session(plain.url, token="secret", allow_pickle=True)
    with rg.Session(trusting, token="secret"), pytest.raises(ServiceError, match="allow_pickle=True"):
        Doubled.apply(rg.tensor([1.0])).numpy()


def test_too_many_sessions_and_workers_are_refused(plain: Server) -> None:
    with pytest.raises(ServiceError, match="up to 1") as raised:
        rg.Session(plain.url, token="secret", workers=2)
    assert code_of(raised) == "quota"
    with rg.Session(plain.url, token="secret"):
        other = rg.Session(plain.url, token="secret")
        with pytest.raises(ServiceError, match="2 sessions"):
            rg.Session(plain.url, token="secret")
        other.close()


def test_a_message_over_the_limit_is_refused(plain: Server) -> None:
    with rg.Session(plain.url, token="secret"):
        with pytest.raises(ServiceError, match="max_message"):
            (rg.tensor(np.zeros(1_000_000)) + 1).numpy()
        assert (rg.tensor([1.0]) + 1).item() == 2.0


def test_tls(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1".split()
    subprocess.run(["openssl", *made, "-keyout", key, "-out", cert], check=True, capture_output=True)
    with Server(ServerOptions(port=0, token="secret", workers=1, tls_cert=str(cert), tls_key=str(key))) as server:
        assert server.url.startswith("wss://")
        with rg.Session(server.url, token="secret", ca=str(cert)):
            assert (rg.tensor([1.0]) + 1).item() == 2.0
        with pytest.raises(ServiceError, match="certificate"):
            rg.Session(server.url, token="secret")
        with pytest.raises(ServiceError, match="wss://"):
            rg.Session(server.url.replace("wss", "ws"), token="secret")


def test_what_is_no_frame_ends_that_connection_alone(plain: Server) -> None:
    with rg.Session(plain.url, token="secret"):
        for data in (b"", b"RGRD" + bytes(100), os.urandom(300), "text"):
            with connect(plain.url, additional_headers={"Authorization": "Bearer secret"}) as raw:
                raw.send(data)
                assert b"Refused" in cast("bytes", raw.recv(timeout=5))
        assert (rg.tensor([1.0]) + 1).item() == 2.0


# ---- its end -------------------------------------------------------------------------------------------------------


def test_a_killed_server_ends_every_wait() -> None:
    with server_process(token="secret", allow_pickle=True) as (url, process):
        session = rg.Session(url, token="secret", allow_pickle=True).start()
        try:
            killed: list[float] = []

            def kill() -> None:
                process.send_signal(signal.SIGKILL)
                killed.append(time.monotonic())

            timer = threading.Timer(1.0, kill)
            timer.start()
            with pytest.raises(ServiceError, match="open a new one"):
                Sleeps.apply(rg.tensor([1.0], requires_grad=True)).numpy()
            assert time.monotonic() - killed[0] < 5
            timer.join()
            for call in (session.stored_bytes, session.cancel, lambda: (rg.tensor([1.0]) + 1).numpy()):
                began = time.monotonic()
                with pytest.raises(ServiceError):
                    call()
                assert time.monotonic() - began < 5
        finally:
            session.close(discard=True)


def test_a_killed_client_frees_its_session() -> None:
    with Server(ServerOptions(port=0, workers=1, idle_timeout=2.0)) as server:
        script = (
            f"import raygrad as rg, time; s = rg.Session({server.url!r}).start(); print(1, flush=True); time.sleep(60)"
        )
        client = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert client.stdout is not None
        client.stdout.readline()
        assert len(admin.sessions(server.url)) == 1
        client.send_signal(signal.SIGSTOP)  # its sockets stay open: only silence tells
        try:
            until = time.monotonic() + 10
            while admin.sessions(server.url) and time.monotonic() < until:
                time.sleep(0.1)
            assert admin.sessions(server.url) == []
        finally:
            client.kill()
            client.wait()
            client.stdout.close()


def test_nothing_at_the_address_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ServiceError, match="nothing answers"):
        rg.Session(f"ws://127.0.0.1:{port}")


# ---- administration ------------------------------------------------------------------------------------------------


def test_status_sessions_and_cancel(plain: Server) -> None:
    with rg.Session(plain.url, token="secret"):
        assert (rg.tensor([1.0]) + 1).item() == 2.0
        assert admin.status(plain.url, "secret")["sessions"] == 1
        (one,) = admin.sessions(plain.url, "secret")
        assert one["runs"] == 1
        assert admin.cancel(plain.url, "secret", one["session"]) is False
        with pytest.raises(ServiceError, match="no session"):
            admin.cancel(plain.url, "secret", "other")
    with pytest.raises(ServiceError, match="token"):
        admin.status(plain.url, "wrong")


def test_probes_and_metrics(plain: Server) -> None:
    http = plain.url.replace("ws", "http", 1)
    for path, text in (("/healthz", b"ok"), ("/readyz", b"ready")):
        with urllib.request.urlopen(http + path, timeout=5) as answer:
            assert text in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(http + "/metrics", timeout=5)
    refused.value.close()
    asked = urllib.request.Request(http + "/metrics", headers={"Authorization": "Bearer secret"})
    with urllib.request.urlopen(asked, timeout=5) as answer:
        assert b"raygrad_service_sessions 0" in answer.read()


@pytest.mark.usefixtures("here")
def test_times_of_a_report_are_the_clients_however_long_workers_took_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = session_host.open_executor

    def slowly(*words: Any, **options: Any) -> Any:
        time.sleep(0.5)
        return opened(*words, **options)

    monkeypatch.setattr(session_host, "open_executor", slowly)
    with Server(ServerOptions(port=0, workers=1)) as server, rg.Session(server.url) as session:
        began = time.monotonic()
        assert (rg.ones(3) * 2).sum().item() == 6.0
        run = session.last_run
        assert run is not None
        facts = run.report().run
        took = time.monotonic() - began
    assert -0.1 < facts.seconds < took + 0.1
    assert all(-0.1 < segment.start < took + 0.1 for segment in facts.segments)
