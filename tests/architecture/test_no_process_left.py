"""The guard around the tests: a command that leaves a process behind fails, by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GUARD = Path(__file__).parents[1] / "no_process_left.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the guard watches processes only on Linux")


def guarded(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(GUARD), *options, sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_status_of_the_command_is_passed_on():
    assert guarded("raise SystemExit(0)").returncode == 0
    assert guarded("raise SystemExit(7)").returncode == 7


def test_a_command_is_asked_for():
    done = subprocess.run([sys.executable, str(GUARD), "--grace", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")


def test_child_that_ends_in_time_is_no_fault():
    assert guarded("import subprocess; subprocess.Popen(['sleep', '0.3'])").returncode == 0


@pytest.mark.slow
def test_daemon_of_its_own_session_is_named_and_killed():
    code = "import subprocess; print(subprocess.Popen(['sleep', '61.5'], start_new_session=True, stdout=-3).pid)"
    done = guarded(code, "--grace", "0.5")
    assert done.returncode == 1
    assert "sleep 61.5" in done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
