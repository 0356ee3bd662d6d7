"""The main example runs as a user starts it, and gives the same bits wherever it runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("sklearn")

SCRIPT = Path(__file__).parents[2] / "examples" / "digits.py"


def run(*arguments: str, timeout: float = 100.0) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def bits(output: str) -> tuple[list[str], str]:
    """The losses of the epochs, exactly, and the digest of the parameters."""
    losses = re.findall(r"^epoch +\d+ .* (-?0x1\.[0-9a-f]+p[+-]\d+)$", output, re.MULTILINE)
    (digest,) = re.findall(r"^parameters +([0-9a-f]{32})\b", output, re.MULTILINE)
    return losses, digest


@pytest.fixture(scope="module")
def local() -> str:
    return run("--epochs", "2")


@pytest.mark.slow
def test_it_trains_and_frees_what_it_saved(local: str):
    losses, _ = bits(local)
    assert len(losses) == 2
    assert float.fromhex(losses[1]) < float.fromhex(losses[0])
    assert re.search(r"saved tensors +[1-9][\d,]* bytes at the peak, 0 at the end", local)
    assert re.search(r"hooks fired +[1-9][\d,]* in process \d+ \(this one\)", local)


@pytest.mark.slow
def test_it_classifies_at_least_96_of_100_images():
    (accuracy,) = re.findall(r"^test accuracy +(0\.\d+)", run(), re.MULTILINE)
    assert float(accuracy) >= 0.96


@pytest.mark.slow
def test_it_gives_the_same_bits_again(local: str):
    assert bits(run("--epochs", "2")) == bits(local)


@pytest.mark.ray
@pytest.mark.slow
def test_it_gives_the_same_bits_on_ray_where_hooks_fire_in_other_processes(local: str):
    remote = run("--epochs", "2", "--on", "ray")
    assert bits(remote) == bits(local)
    assert "(this one)" not in remote
    assert re.findall(r"\d in process (\d+)", remote), "on one worker or both, as measured costs would have it"
    assert re.search(r"saved tensors +[1-9][\d,]* bytes at the peak, 0 at the end", remote)
    assert re.search(r"the store holds +0 bytes at the end", remote)
