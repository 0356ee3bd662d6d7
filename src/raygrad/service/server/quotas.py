"""Quotas of a session at a service: how large its submissions may be, how fast it may ask, and what it may hold.

The session's thread asks before it does something; what is over a quota is refused by a `ServiceError`, and the session
goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from raygrad.errors import ServiceError
from raygrad.proto.ir.graph import Graph, first_outputs
from raygrad.proto.ir.specs import bytes_of

from .options import ServerOptions

NODES: Final = "nodes"
RATE: Final = "rate"
BYTES: Final = "bytes"
SECONDS: Final = "seconds"
"""Codes of `ServiceError`, one for each quota of a session."""


class Rate:
    """How many messages may come: so many per second, and that many at once after a second of silence.

    Args:
        most: per second; None for any number.
        clock: returns seconds.
    """

    def __init__(self, most: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = math.inf if most is None else most
        self._clock = clock
        self._left = max(self._most, 1.0)
        self._at = clock()

    def excess(self) -> float:
        """Count a message; return the seconds by which it came too soon: then it does not count. 0 if it did not."""
        if self._most == math.inf:
            return 0.0
        now = self._clock()
        self._left = min(max(self._most, 1.0), self._left + (now - self._at) * self._most)
        self._at = now
        if self._left < 1.0:
            return (1.0 - self._left) / self._most
        self._left -= 1.0
        return 0.0


class Usage:
    """What one session uses of its quotas."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self.rate: Final = Rate(options.max_rate)
        self._held: dict[int, dict[int, int]] = {}
        """By run, the bytes of its kept values by id."""
        self._inputs: dict[int, int] = {}
        """By run under way, the bytes of its inputs."""

    @property
    def held(self) -> int:
        """The bytes that are held for it: kept values, and inputs of what runs."""
        return sum([sum(values.values()) for values in self._held.values()]) + sum(self._inputs.values())

    def check_nodes(self, graph: Graph) -> None:
        """Raises ServiceError if a submission has too many nodes."""
        most = self._options.max_nodes
        if most is not None and len(graph.nodes) > most:
            raise ServiceError(
                f"a submission of {len(graph.nodes):,} nodes is over the {most:,} that this service takes: submit in "
                "parts (run.wait(), or read a value), or start it with a larger max_nodes (--max-nodes)",
                NODES,
            )

    def too_fast(self, seconds: float) -> ServiceError:
        """Return the error for a message that came too soon."""
        return ServiceError(
            f"this service takes {self._options.max_rate:g} messages per second of a session: wait {seconds:.3g} s and "
            "try again, record more before values are read, or start it with a larger max_rate (--max-rate)",
            RATE,
        )

    def submitted(self, run: int, graph: Graph, inputs: Sequence[Any]) -> None:
        """Count what a run will hold.

        Raises:
            ServiceError: it is more than the session may hold; nothing is counted then.
        """
        most = self._options.max_held
        if most is None:
            return
        kept = _kept_bytes(graph)
        given = sum([one.nbytes for one in inputs if isinstance(one, np.ndarray)])
        before, more = self.held, sum(kept.values()) + given
        if before + more > most:
            raise ServiceError(
                f"this session holds {before:,} bytes at the service, and run {run} would add {more:,}: {most:,} are "
                "allowed. Let go of tensors (del), send less at once, or start it with a larger max_held (--max-held)",
                BYTES,
            )
        self._held[run] = kept
        self._inputs[run] = given

    def measured(self, run: int, sizes: Iterable[tuple[int, int]]) -> None:
        """Count values whose bytes a run has shown."""
        if run in self._held:
            self._held[run].update([(value, size) for value, size in sizes if size > 0])

    def dropped(self, run: int, value: int) -> None:
        """A kept value is held no more."""
        values = self._held.get(run)
        if values is not None:
            values.pop(value, None)
            if not values and run not in self._inputs:
                del self._held[run]

    def ended(self, run: int, *, failed: bool = False) -> None:
        """A run has ended; one that has failed holds nothing."""
        self._inputs.pop(run, None)
        if failed or not self._held.get(run):
            self._held.pop(run, None)


def _kept_bytes(graph: Graph) -> dict[int, int]:
    """Return the bytes of the values that a graph keeps, as far as they are known before it has run."""
    if not graph.keep:
        return {}
    spec_of: dict[int, int] = dict(enumerate(graph.externals))
    for first, node in zip(first_outputs(graph), graph.nodes, strict=True):
        spec_of.update(enumerate(node.outputs, first))
    return {value: max(bytes_of(graph.specs[spec_of[value]]), 0) if value in spec_of else 0 for value, _ in graph.keep}
