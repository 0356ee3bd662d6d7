"""`raygrad cluster`: nodes that a driver can attach to, and nothing left once they are stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from raygrad.console.ray_nodes import free_port, last_line

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="finds a node's processes in /proc"),
]

DRIVER = """
import json, os, sys
import ray

ray.init(address=sys.argv[1].removeprefix("ray:"), logging_level="ERROR", log_to_driver=False)

@ray.remote(num_cpus=1)
class Adder:
    def add(self, x, y):
        return x + y, os.getpid(), os.getsid(0), ray.get_runtime_context().get_node_id()

actors = [Adder.remote() for _ in range(2)]
found = [ray.get(actor.add.remote(2, 3)) for actor in actors]
print(json.dumps({"found": found, "cpus": sorted(node["Resources"].get("CPU", 0) for node in ray.nodes())}))
"""


def cluster(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "raygrad", "cluster", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def processes_of(sessions: set[int]) -> list[int]:
    found: list[int] = []
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        try:
            if os.getsid(pid) in sessions and ") Z " not in Path(f"/proc/{pid}/stat").read_text():
                found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def directory_of(port: str) -> Path:
    return Path(tempfile.gettempdir(), f"raygrad-cluster-{port}")


def sessions_of(port: str) -> set[int]:
    return {pid for pid, _ in json.loads((directory_of(port) / "nodes.json").read_text())}


@pytest.fixture
def port() -> Iterator[str]:
    chosen = str(free_port())
    yield chosen
    cluster("stop", "--port", chosen)


def test_driver_attaches_runs_actors_and_nothing_is_left_after_stop(
    port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("HOME", str(tmp_path))  # there Ray keeps the token, which does not exist yet
    started = cluster("start", "--workers", "2", "--port", port, "--object-store-mb", "80")
    assert started.returncode == 0, started.stderr
    address = started.stdout.strip()
    assert address == f"ray:127.0.0.1:{port}"
    sessions = sessions_of(port)
    assert len(sessions) == 3

    # Ray puts the driver's folder on every worker's path: outside the repository, no room can be taken for a package
    driver = [sys.executable, "-c", DRIVER, address]
    done = subprocess.run(driver, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert [total for total, *_ in seen["found"]] == [5, 5]
    assert {session for _, _, session, _ in seen["found"]} < sessions
    assert len({node for *_, node in seen["found"]}) == 2
    assert seen["cpus"] == [0, 1, 1]

    status = cluster("status", "--port", port)
    assert (status.returncode, status.stdout.split(",")[0]) == (0, "3 of 3 nodes running")

    again = cluster("start", "--port", port)
    assert again.returncode == 1
    assert again.stderr.startswith("error: something runs at")
    assert again.stderr.count("\n") == 1
    assert processes_of(sessions)

    stopped = cluster("stop", "--port", port)
    assert stopped.stdout.strip() == "stopped 3 nodes"
    assert not processes_of(sessions)
    assert not directory_of(port).exists()


def test_stop_clears_up_after_a_head_that_was_killed_and_spares_another_cluster(port: str):
    other = str(free_port())
    try:
        assert cluster("start", "--workers", "0", "--port", other, "--object-store-mb", "80").returncode == 0
        assert cluster("start", "--workers", "1", "--port", port, "--object-store-mb", "80").returncode == 0
        sessions, others = sessions_of(port), sessions_of(other)
        head = json.loads((directory_of(port) / "nodes.json").read_text())[0][0]
        os.kill(head, signal.SIGKILL)
        assert cluster("status", "--port", port).returncode == 1
        assert cluster("stop", "--port", port).returncode == 0
        assert not processes_of(sessions)
        assert others <= set(processes_of(others))
    finally:
        assert cluster("stop", "--port", other).stdout.strip() == "stopped 1 node"


def test_status_without_a_cluster_says_so(port: str):
    done = cluster("status", "--port", port)
    assert (done.returncode, done.stdout) == (1, f"no cluster was started at port {port}\n")


def test_stop_without_a_cluster_stops_nothing(port: str):
    assert cluster("stop", "--port", port).stdout.strip() == "stopped 0 nodes"


def test_start_that_fails_leaves_its_logs_and_no_process(port: str):
    failed = cluster("start", "--workers", "0", "--port", port, "--object-store-mb", "1")  # Ray takes no less than 75
    assert failed.returncode == 1
    assert str(directory_of(port)) in failed.stderr
    assert "bytes" in (directory_of(port) / "head.log").read_text()
    assert not processes_of(sessions_of(port))


@pytest.mark.parametrize(
    "words",
    [["restart"], ["start", "--workers"], ["start", "--workers", "many"], ["start", "--cpus", "0"], ["stop", "--all"]],
    ids=" ".join,
)
def test_a_wrong_command_line_is_told(words: list[str]):
    done = cluster(*words)
    assert done.returncode == 2
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_last_line_of_a_log_is_found(tmp_path: Path):
    log = tmp_path / "head.log"
    assert last_line(log) == ""
    log.write_text("started\n  the port is taken\n\n")
    assert last_line(log) == "the port is taken"
