"""What docs/deploying.md has one type for three nodes, a server on them and its clients, word for word."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raygrad.console.ray_nodes import free_port

from .serving import Serving

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="`raygrad cluster` is for Linux"),
]

PAGE = Path(__file__).parents[2] / "docs" / "deploying.md"

TRAIN = """
import raygrad as rg

class Half(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x / 2

    @staticmethod
    def backward(ctx, grad):
        return grad / 2

weight = rg.ones(4, requires_grad=True)
with rg.Session() as session:
    Half.apply(weight).sum().backward()
    print(session.address.partition(":")[0], weight.grad.numpy())
"""


def blocks(nodes_port: str, port: str) -> list[list[str]]:
    """Return the lines of each block of commands, with ports that are free."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split("## Three nodes on one machine")[1].split("\n## ")[0]
    section = section.replace("6399", nodes_port).replace("8786", port)
    found = re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)
    return [[line.strip() for line in block.splitlines()] for block in found]


class UserShell:
    """A folder and an environment in which commands are typed: those of a user who has set nothing yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "RAYGRAD_"))
        }
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment |= {"HOME": str(folder), "PATH": path, "RAY_USAGE_STATS_ENABLED": "0"}

    def serving(self, command: str) -> contextlib.AbstractContextManager[Serving]:
        """Run a command that serves."""
        return Serving.by(["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment)

    def type(self, *lines: str) -> str:
        """Run commands one after the other; return what they print."""
        done = subprocess.run(
            ["bash", "-ec", "\n".join(lines)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, (lines, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def terminal(tmp_path: Path) -> UserShell:
    (tmp_path / "train.py").write_text(TRAIN)
    return UserShell(tmp_path)


@pytest.fixture
def ports(terminal: UserShell) -> Iterator[tuple[str, str]]:
    nodes, server = str(free_port()), str(free_port())
    yield nodes, server
    terminal.type(f"raygrad cluster stop --port {nodes} || true")


def test_three_nodes_a_server_and_clients(terminal: UserShell, ports: tuple[str, str]) -> None:
    nodes, serving, clients, ending = blocks(*ports)
    assert nodes.pop(0).startswith("pip install")
    start, address, demo, status = nodes
    start = f"{start} --port {ports[0]} --object-store-mb 80"  # where tests run beside each other
    assert terminal.type(start).strip() == address
    assert f"on {address}" in terminal.type(demo)
    assert terminal.type(f"{status} --port {ports[0]}").startswith("3 of 3 nodes running")

    terminal.type(*serving[:-1])
    with terminal.serving(serving[-1]) as server:
        printed = terminal.type(*clients)
        assert "Training a network" in printed
        assert printed.rstrip().endswith("wss [0.5 0.5 0.5 0.5]")

        token, train = clients[0], f"{clients[-1].replace('raygrad run', 'raygrad run --workers 1')}"
        both = terminal.type(token, f"{train} & {train} & wait -n; wait -n")  # each on a worker of its own
        assert both.count("wss [0.5 0.5 0.5 0.5]") == 2

        server.process.send_signal(signal.SIGINT)
        assert server.ends(60) == 0, server.lines
    assert terminal.type(*[f"{line} --port {ports[0]}" for line in ending]).strip() == "stopped 3 nodes"
