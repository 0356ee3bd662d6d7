"""`raygrad doctor` looks at the real machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from raygrad.console.doctor import answers_at, cpu_quota, examine
from raygrad.service import Server, ServerOptions


def doctor(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "raygrad", "doctor", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env=dict(os.environ) | environment
    )


def test_json_lists_each_check_and_the_exit_code_says_whether_something_is_broken():
    well = doctor("--json")
    said = json.loads(well.stdout)
    assert said["ok"] == (well.returncode == 0)
    checks = {one["check"]: one for one in said["findings"]}
    assert checks["Python"]["status"] == "ok"
    assert {"packages", "GPU", "CPUs", "shared memory", "limits", "port 8786", "server token"} <= checks.keys()
    broken = doctor("--json", RAY_AUTH_MODE="maybe", RAYGRAD_TOKEN="a b")
    assert broken.returncode == 1
    wrong = {one["check"]: one["remedy"] for one in json.loads(broken.stdout)["findings"] if one["status"] == "error"}
    assert "server token" in wrong
    assert all(wrong.values())


def test_an_address_at_which_nothing_answers_is_found():
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    done = doctor("--on", f"ray:127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"no Ray answers at 127.0.0.1:{port}" in " ".join(done.stdout.split())


def test_a_certificate_of_ones_own_is_trusted_by_its_authority(tmp_path: Path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1".split()
    subprocess.run(["openssl", *made, "-keyout", key, "-out", cert], check=True, capture_output=True)
    with Server(ServerOptions(port=0, token="secret", workers=1, tls_cert=str(cert), tls_key=str(key))) as server:

        def found(*words: str, **environment: str) -> str:
            done = doctor("--json", "--on", server.url, *words, RAYGRAD_TOKEN="secret", **environment)
            return json.loads(done.stdout)["findings"][-1]["found"]

        assert found("--ca", str(cert)) == found(RAYGRAD_CA=str(cert)) == "a session can open there"
        assert "is not trusted" in found()
        assert f"ca='{key}' is no file of certificates" in found("--ca", str(key))
        assert "is no file of certificates" in found(RAYGRAD_CA=str(tmp_path / "nowhere.pem"))
    refused = doctor("--on", "ray", "--ca", str(cert))
    assert refused.returncode == 2
    assert "--ca: it is for sessions at wss://HOST:PORT" in " ".join(refused.stderr.split())


def test_an_address_that_is_none_is_found():
    problem = examine(port=8786, address="tcp://here")[-1]
    assert (problem.status, problem.check) == ("error", "address tcp://here")
    assert "unknown address" in problem.found


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
    ids=["v2", "v2 without", "v1", "v1 without", "none"],
)
def test_the_quota_of_a_control_group_is_read(tmp_path: Path, files: dict[str, str], quota: float | None):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == quota


class Handler(BaseHTTPRequestHandler):
    server_version = "raygrad/0.1.0"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Other(Handler):
    server_version = "nginx/1"


@pytest.mark.parametrize(("handler", "said"), [(Handler, "raygrad"), (Other, "nginx/1")])
def test_it_tells_a_server_of_its_own_from_another(handler: type[Handler], said: str):
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.handle_request)
        probing = threading.Thread(target=server.handle_request)
        thread.start()  # one looks whether anybody is there, the other asks
        probing.start()
        assert answers_at(server.server_port).startswith(said)
        thread.join(10)
        probing.join(10)


def test_a_port_at_which_nobody_answers_is_free():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    assert answers_at(port) == ""
