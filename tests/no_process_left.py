"""Runs a command and fails if it leaves a process behind: `python tests/no_process_left.py pytest -q`, or with
`--grace 2` before the command for those that need not be given ten seconds to end.

Ray's processes are children of whoever started them and reparent when that one dies. On Linux this script is made the
one they reparent to (a "child subreaper"), so that after the command whatever is still below it was left behind: it is
named, killed, and the exit status is 1. Elsewhere the command only runs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

GRACE = 10.0
"""Seconds that processes have to end by themselves after the command, unless told: a raylet takes a few to shut its
workers down."""

PR_SET_CHILD_SUBREAPER = 36


def reap() -> None:
    """Collect every child that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def descendants() -> dict[int, str]:
    """The command line of each process below this one, by process id."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):  # ended while we looked
            continue
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below and pid not in below}:
        below |= more
    return {pid: command_line(pid) for pid in sorted(below - {os.getpid()})}


def command_line(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return "(ended)"
    return words[:160] or "(no command line)"


def still_there_after(seconds: float) -> dict[int, str]:
    """What is still below this process after so many seconds; returns at once when nothing is."""
    deadline = time.monotonic() + seconds
    while True:
        reap()
        left = descendants()
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def main(words: list[str]) -> int:
    grace, command = GRACE, words
    if words[:1] == ["--grace"] and words[1:]:
        grace, command = float(words[1]), words[2:]
    if not command:
        sys.stderr.write("usage: python tests/no_process_left.py [--grace SECONDS] COMMAND [ARGUMENT ...]\n")
        return 2
    watching = sys.platform == "linux"
    if watching and ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become a child subreaper")
    running = subprocess.Popen(command)
    while True:
        try:
            status = running.wait()
            break
        except KeyboardInterrupt:  # the command got it too, and decides
            continue
    left = still_there_after(grace) if watching else {}
    for pid, line in left.items():
        sys.stderr.write(f"left behind: process {pid}: {line}\n")
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if left:
        still_there_after(GRACE)
    return status or (1 if left else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
