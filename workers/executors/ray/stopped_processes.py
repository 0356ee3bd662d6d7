"""Looks for worker processes that were stopped (SIGSTOP) and do not go on: they answer nothing, and never die (H22).

A process that holds the interpreter's lock answers nothing either, and is healthy: only the state that the kernel
gives tells the two apart. On this machine it is read; on another one, of a worker that has not said for a while how
far it is, a task of Ray's looks."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final

from .actor_processes import ActorProcess
from .connection import ray_module

STOPPED_SECONDS: Final = 5.0
"""Seconds for which a process has to be stopped before it is ended: job control stops for less."""

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks."""

SILENT_SECONDS: Final = 3.0
"""Seconds without an answer after which a task looks at a process of another machine."""


def is_stopped(pid: int) -> bool:
    """Tell whether a process of this machine is stopped, and not by a debugger; False if there is none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "T"


def end_if_stopped(pids: Sequence[int], seconds: float = STOPPED_SECONDS, look: float = LOOK_SECONDS) -> list[int]:
    """Kill those of some processes of this machine that are stopped all the time for so many seconds; return them.
    Waits for that only as long as one of them is."""
    stopped, end = set(pids), time.monotonic() + seconds
    while stopped := {pid for pid in stopped if is_stopped(pid)}:
        if time.monotonic() >= end:
            break
        time.sleep(look)
    for pid in stopped:
        kill(pid)
    return sorted(stopped)


def kill(pid: int) -> None:
    """Kill a process of this machine, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class StoppedProcesses:
    """Of the workers of one executor, those whose processes are stopped. Not thread-safe.

    Args:
        host: the node of this process, whose processes it can see.
        silence: returns for how many seconds a worker has not answered.
    """

    def __init__(self, host: str, silence: Callable[[int], float]) -> None:
        self._host = host
        self._silence = silence
        self._since: dict[int, tuple[int, float]] = {}
        """By worker whose process is stopped: its process id, and since when."""
        self._tasks: dict[str, Any] = {}
        """By node, the task that looks there."""
        self._looked = 0.0

    def look(self, workers: Sequence[ActorProcess], busy: Callable[[], Collection[int]]) -> list[int]:
        """Return the `busy` workers on this machine whose processes have been stopped for long, if it is time to look,
        and have those on other machines ended."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return []
        self._looked = now
        found: list[int] = []
        elsewhere: dict[str, list[int]] = {}
        for index in busy():
            worker = workers[index]
            if worker.lost or not worker.pid:
                continue
            if worker.node_id != self._host:
                if self._silence(index) >= SILENT_SECONDS:
                    elsewhere.setdefault(worker.node_id, []).append(worker.pid)
            elif self._stopped_for(index, worker.pid, now) >= STOPPED_SECONDS:
                found.append(index)
        for node, pids in elsewhere.items():
            self._look_at(node, pids)
        return found

    def _stopped_for(self, index: int, pid: int, now: float) -> float:
        """Return for how many seconds the process of a worker has been stopped."""
        if not is_stopped(pid):
            self._since.pop(index, None)
            return 0.0
        before, since = self._since.setdefault(index, (pid, now))
        if before != pid:
            self._since[index] = pid, now
            return 0.0
        return now - since

    def _look_at(self, node: str, pids: Sequence[int]) -> None:
        """Have a task look at processes of another node, unless one does. When it ends one, Ray tells of that."""
        ray = ray_module()
        task = self._tasks.get(node)
        if task is not None and not ray.wait([task], timeout=0)[0]:
            return
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        there = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        remote = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(end_if_stopped)
        self._tasks[node] = remote.remote(tuple(pids))
