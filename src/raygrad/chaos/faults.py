"""What can happen to a worker, and where: each fault happens once, in the worker's own process."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Any, ClassVar

from raygrad.client.options import seconds, whole
from raygrad.workers.process.fault_points import POINTS, PointName


class InjectedError(RuntimeError):
    """What `Raise` raises."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point in the work of one worker, counted from `inject` on.

    Args:
        name: "call" (a segment begins), "node" (a node is about to run), "stored" (the objects of a segment are made,
            and its reply has not left), or "reply" (its reply has left; only where workers are processes).
        occurrence: the how many-eth time, from 1.

    Raises:
        TypeError, ValueError: no such point.
    """

    name: PointName
    occurrence: int = 1

    def __post_init__(self) -> None:
        if self.name not in POINTS:
            raise ValueError(f"Point(name) is one of {', '.join(map(repr, POINTS))}, not {self.name!r}")
        whole("Point(occurrence=...)", self.occurrence, 1)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to a worker once.

    Args:
        worker: its index or name. The process that takes the place of one that died has no faults.
        at: where it happens.
    """

    worker: int | str
    at: Point

    needs_process: ClassVar[bool] = True
    """Whether it happens to a process, so that the worker has to be one of its own."""

    def __post_init__(self) -> None:
        if not isinstance(self.at, Point):  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
            raise TypeError(f"{type(self).__name__}(at=...) takes a Point, not {self.at!r}")

    def strike(self) -> None:
        """Happen, here and now, to this process."""
        raise NotImplementedError


def _check_duration(fault: str, value: Any) -> None:
    if seconds(f"chaos.{fault}(seconds=...)", value) is None:
        raise TypeError(f"chaos.{fault}(seconds=...) takes a number of seconds, not None")


@dataclass(frozen=True, slots=True)
class Kill(Fault):
    """The worker's process is killed (SIGKILL), as if it had run out of memory."""

    def strike(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Stop(Fault):
    """The worker's process is stopped (SIGSTOP), and goes on after so many seconds; never by default."""

    seconds: float = math.inf

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        _check_duration("Stop", self.seconds)

    def strike(self) -> None:
        pid = os.getpid()
        if self.seconds != math.inf:  # the process cannot wake itself
            script = f"sleep {self.seconds}; kill -CONT {pid}"
            subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True)
        os.kill(pid, signal.SIGSTOP)


@dataclass(frozen=True, slots=True)
class Delay(Fault):
    """The worker waits for so many seconds."""

    seconds: float = 1.0
    needs_process: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        _check_duration("Delay", self.seconds)

    def strike(self) -> None:
        time.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class DropReply(Fault):
    """The reply of a segment is lost: its work is done, and the connection to its worker ends before the reply leaves.
    Ray either delivers a reply or reports the worker as lost, so the process ends here.

    `at` has to be a point "stored".
    """

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if self.at.name != "stored":
            raise ValueError(f'DropReply(at=...) happens at Point("stored", n), not at a point {self.at.name!r}')

    def strike(self) -> None:
        os._exit(1)


@dataclass(frozen=True, slots=True)
class Raise(Fault):
    """The node or segment fails with an `InjectedError`, as if user code had raised it. Not at a point "reply", where
    nothing is left that could fail."""

    message: str = "a fault that was injected"
    needs_process: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if self.at.name == "reply":
            raise ValueError(
                'Raise(at=...) happens at a point "call", "node" or "stored": after the reply nothing can fail'
            )

    def strike(self) -> None:
        raise InjectedError(self.message)
