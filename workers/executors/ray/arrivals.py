"""Workers that were asked for and are not there yet: the actors that Ray starts when it has room for them.

Nobody waits for them: the executor polls `references` with its other answers, and calls `look`. A worker gets its name
when it has come, so that names count the workers that there are; one after the other, for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raygrad.errors import ExecutionError

from .actor_processes import ActorProcess, ask_for_worker, take_hello, take_ready
from .connection import ray_module


@dataclass(slots=True, eq=False)
class Arrival:
    """A worker that was asked for."""

    process: ActorProcess
    options: Mapping[str, Any]
    """Those of its actor."""
    ready: Any = None
    """The reference of its last answer, once it has started."""


class Arrivals:
    """The workers that were asked for by one executor, which calls it under its lock."""

    def __init__(self, blas_threads: int) -> None:
        self._blas_threads = blas_threads
        self.waiting: list[Arrival] = []

    def ask(self, options: Mapping[str, Any]) -> None:
        """Ask Ray for a worker with these options of actors."""
        self.waiting.append(Arrival(ask_for_worker(options, self._blas_threads), options))

    @property
    def references(self) -> list[Any]:
        """What is answered when something has changed."""
        starting = [one for one in self.waiting if one.ready is not None]
        return [one.ready for one in starting] or [one.process.hello for one in self.waiting]

    def look(self, number: int) -> Arrival | str | None:
        """Return a worker that has come, as number `number`, or why one does not come; None if nothing is new."""
        ray = ray_module()
        for arrival in list(self.waiting):
            waits_for = arrival.process.hello if arrival.ready is None else arrival.ready
            if not ray.wait([waits_for], timeout=0)[0]:
                if arrival.ready is not None:
                    return None  # the next one has the next number
                continue
            try:
                if arrival.ready is None:
                    if any(one.ready is not None for one in self.waiting):
                        continue
                    arrival.ready = take_hello(arrival.process, f"worker {number}")
                    return None
                take_ready(arrival.process, arrival.ready)
            except (ExecutionError, Warning) as error:  # a warning that the user has made an error
                self._drop(arrival)
                return str(error)
            self.waiting.remove(arrival)
            return arrival
        return None

    def close(self) -> None:
        """Give up all of them."""
        for arrival in list(self.waiting):
            self._drop(arrival)

    def _drop(self, arrival: Arrival) -> None:
        self.waiting.remove(arrival)
        ray_module().kill(arrival.process.actor)
