"""The command line: help in words, errors in one line, exit codes that say what happened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import raygrad

COMMANDS = ("run", "explain", "demo", "doctor", "cluster")


def raygrad_command(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "raygrad", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=cwd)


def test_without_words_it_lists_its_commands():
    done = raygrad_command()
    assert done.returncode in (0, 2)
    assert all(command in done.stdout + done.stderr for command in COMMANDS)


def test_it_says_its_version():
    assert raygrad_command("--version").stdout == f"raygrad {raygrad.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_what_it_does(command: str):
    done = raygrad_command(command, "--help")
    assert done.returncode == 0
    assert f"Usage: raygrad {command}" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train"], "train"),
        (["run", "missing.py"], "missing.py"),
        (["run", "--workers", "0", "x.py"], "--workers"),
        (["doctor", "--port", "99999"], "--port"),
    ],
    ids=["command", "file", "workers", "port"],
)
def test_a_wrong_command_line_is_told_with_the_usage(words: list[str], said: str, tmp_path: Path):
    done = raygrad_command(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_demo_learns():
    done = raygrad_command("demo", "--workers", "2")
    assert done.returncode == 0, done.stderr
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("  step")]
    assert losses[-1] < losses[0] / 3
