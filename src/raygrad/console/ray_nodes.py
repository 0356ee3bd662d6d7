"""Ray nodes on this machine: a head without CPUs and some worker nodes, each with its own object store.

`raygrad cluster` starts and stops them, and tells what runs. It stops what it started and nothing else. Each node is
one `ray start --block`, leader of its own process session; what a node starts stays in that session. `ray stop` is
never called: it stops every Ray it can find. Linux only (/proc).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from raygrad.errors import BackendUnavailable, ExecutionError

HOST = "127.0.0.1"
START_DEADLINE = 60.0
"""Seconds that each node has to come up: 3 to 6 on two idle cores."""
STOP_DEADLINE = 20.0
"""Seconds from SIGTERM to SIGKILL: a node takes 2 to 4 to drain its workers."""

PORTS = range(20_000, 32_000)
"""From 10,002 to 19,999 are those of Ray's workers, from 32,768 those that Linux gives to connections."""

LONGEST_DIRECTORY = 40
"""Ray keeps Unix sockets 65 characters further down, and a socket's path may have 107."""

COUNT_NODES = """
import sys, time, ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
alive, deadline = 0, time.monotonic() + float(sys.argv[3])
while alive < int(sys.argv[2]) and time.monotonic() < deadline:
    alive = sum(node["Alive"] for node in ray.nodes())
    print(alive, flush=True)
    time.sleep(0.1)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    workers: int = 2
    port: int = 6399
    cpus: int = 1
    """CPUs of each worker node: raygrad starts one worker for each."""
    object_store_mb: int = 128
    """Size of each node's object store; Ray takes no less than 75."""

    @property
    def directory(self) -> Path:
        """Holds the cluster's logs and sockets, and what `stop` has to know. One cluster for each port."""
        return Path(tempfile.gettempdir(), f"raygrad-cluster-{self.port}")


@dataclass(frozen=True, slots=True)
class RayNode:
    """A `ray start --block`: its process id, which is also its session's, and its command line."""

    pid: int
    command: list[str]

    @property
    def leads(self) -> bool:
        """Whether its leader lives: without it what is left of a node belongs to no cluster."""
        return self.pid in self.processes()

    def processes(self) -> list[int]:
        """Every live process of this node, its leader included."""
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_text().split("\0")[:-1]
        except (FileNotFoundError, ProcessLookupError):
            words = []
        if words and words != self.command:  # our leader is long gone, and its number is someone else's
            return []
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if is_alive_in(pid, self.pid)]


def is_alive_in(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session and ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def environment() -> dict[str, str]:
    """Nodes ask for a token unless RAY_AUTH_MODE says otherwise, as Ray does for a cluster that `ray.init()` starts."""
    env = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"} | dict(os.environ)
    env.pop("RAY_ADDRESS", None)
    return env


def asks_for_token() -> bool:
    """Tell whether the nodes that are started from here ask for a token."""
    return environment()["RAY_AUTH_MODE"] == "token"


def free_port() -> int:
    """Return a port that nothing uses. It is none of those that systems give to connections, nor of those of Ray's
    workers, so that it is still free when a node comes to listen there."""
    for port in random.SystemRandom().sample(PORTS, 100):
        try:
            with socket.create_server((HOST, port)):
                return port
        except OSError:
            continue
    raise ExecutionError(f"100 ports between {PORTS[0]} and {PORTS[-1]} were tried, and none is free")


def start_node(name: str, options: ClusterOptions, arguments: list[str]) -> RayNode:
    common = {"object-store-memory": options.object_store_mb * 2**20, "dashboard-agent-listen-port": free_port()}
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--log-color=false", *arguments]
    command += [f"--{key}={value}" for key, value in common.items()]
    with (options.directory / f"{name}.log").open("wb") as log:
        leader = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(), cwd=options.directory,
            start_new_session=True,
        )  # fmt: skip
    return RayNode(leader.pid, command)


def start(options: ClusterOptions) -> str:
    """Start the cluster and wait until every node is in it. Returns the address for `raygrad.Session`.

    Raises:
        BackendUnavailable: Ray is not installed.
        ExecutionError: something runs at the port already, or a node does not come up.
    """
    directory, address = options.directory, f"{HOST}:{options.port}"
    if importlib.util.find_spec("ray") is None:
        raise BackendUnavailable("a cluster needs Ray, which is not installed: pip install 'raygrad[ray]'", name="ray")
    if len(str(directory)) > LONGEST_DIRECTORY:
        raise ExecutionError(f"{directory} is too long a path for Ray's sockets: set TMPDIR to a shorter one")
    if load(options) or accepts(options.port):
        raise ExecutionError(f"something runs at {address} already: stop it, or choose another --port")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700)
    if asks_for_token():
        generate = [sys.executable, "-m", "ray.scripts.scripts", "get-auth-token", "--generate"]
        subprocess.run(generate, env=environment(), stdout=subprocess.DEVNULL, check=True)

    nodes: list[RayNode] = []
    try:
        head = [
            "--head",
            f"--port={options.port}",
            "--num-cpus=0",
            "--include-dashboard=false",
            f"--temp-dir={directory}",
        ]
        head.append(f"--dashboard-port={free_port()}")
        if importlib.util.find_spec("grpc"):  # with it, a head also serves Ray Client, at one fixed port unless told
            head.append(f"--ray-client-server-port={free_port()}")
        nodes.append(start_node("head", options, head))
        save(options, nodes)
        wait(lambda: accepts(options.port), nodes, options)
        count = [sys.executable, "-c", COUNT_NODES, address, str(1 + options.workers)]
        count.append(str((1 + options.workers) * START_DEADLINE))
        with (directory / "nodes.log").open("wb") as log:
            counting = subprocess.Popen(count, env=environment(), cwd=directory, stdout=log)
        try:
            wait(lambda: alive(directory) == 1, nodes, options)
            for index in range(options.workers):  # one by one: two nodes at once can choose the same socket
                joins = [f"--address={address}", f"--num-cpus={options.cpus}", "--include-log-monitor=false"]
                nodes.append(start_node(f"worker-{index}", options, joins))
                save(options, nodes)
                wait(lambda: alive(directory) == len(nodes), nodes, options)
            counting.wait(START_DEADLINE)
        finally:
            counting.kill()
            counting.wait()
    except BaseException:
        kill(nodes)  # the directory stays, for its logs
        raise
    return f"ray:{address}"


def wait(condition: Callable[[], bool], nodes: list[RayNode], options: ClusterOptions) -> None:
    deadline = time.monotonic() + START_DEADLINE
    while not condition():
        for index, node in enumerate(nodes):
            if not is_alive_in(node.pid, node.pid):
                log = options.directory / ("head.log" if not index else f"worker-{index - 1}.log")
                raise ExecutionError(f"a node ended while it was started: {last_line(log)!r} (see {log})")
        if time.monotonic() > deadline:
            raise ExecutionError(f"no new node within {START_DEADLINE:.0f} s: see the logs in {options.directory}")
        time.sleep(0.05)


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def alive(directory: Path) -> int:
    """How many nodes a driver saw last."""
    counts = (directory / "nodes.log").read_text().split()
    return int(counts[-1]) if counts else 0


def kill(nodes: list[RayNode]) -> None:
    """End every process of these nodes: workers first, so that the head sees them leave."""
    whole = all(is_alive_in(node.pid, node.pid) for node in nodes)  # else a node waits in vain for its head to answer
    for group in (nodes[1:], nodes[:1]):
        for node in group if whole else ():
            send(signal.SIGTERM, node.pid)
        deadline = time.monotonic() + (STOP_DEADLINE if whole else 0.0)
        while left := [pid for node in group for pid in node.processes()]:
            if time.monotonic() >= deadline:
                for pid in left:
                    send(signal.SIGKILL, pid)
            time.sleep(0.1)


def send(number: signal.Signals, pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, number)


def stop(options: ClusterOptions) -> int:
    """Stop the cluster of this port and remove its directory. Returns how many nodes were running."""
    nodes = load(options)
    kill(nodes)
    shutil.rmtree(options.directory, ignore_errors=True)
    return len(nodes)


def running(options: ClusterOptions) -> tuple[int, int]:
    """Return how many nodes of this port's cluster were started, and how many of them run."""
    try:
        started = len(json.loads((options.directory / "nodes.json").read_text()))
    except FileNotFoundError:
        return 0, 0
    return started, sum(node.leads for node in load(options))


def save(options: ClusterOptions, nodes: list[RayNode]) -> None:
    (options.directory / "nodes.json").write_text(json.dumps([[node.pid, node.command] for node in nodes]))


def load(options: ClusterOptions) -> list[RayNode]:
    """The nodes of this port's cluster that have live processes, the head first."""
    try:
        saved = json.loads((options.directory / "nodes.json").read_text())
    except FileNotFoundError:
        return []
    return [node for node in (RayNode(pid, command) for pid, command in saved) if node.processes()]
