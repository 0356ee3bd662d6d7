"""Node samples: the times of the nodes of one run, from its records, as factors on their priors.

`measured_costs` enters their means. A record times long nodes one by one; the time of the others of a segment is
divided among kinds in proportion to the expected times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from raygrad.proto.ir.program import Record

from .cost_classes import CostClasses
from .function_costs import CostKind


class MeanSample(NamedTuple):
    """The mean over the nodes of one kind, and of one value of their non-tensor arguments if it names one."""

    kind: str
    values: str
    factor: float
    """Measured seconds over those of the prior."""
    seconds: float
    first: bool
    """All of them were the first runs of their code in a process."""


class NodeSamples:
    """The times of nodes, in the run that is entered."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, bool], tuple[float, float, int]] = {}
        """By kind, value, and whether they are of first runs: measured seconds, those of the prior, and nodes."""
        self._ran: set[tuple[str, str]] = set()
        """(family, worker) of the user Functions that have run in the process of a worker."""

    def add_segment(
        self,
        kinds: CostClasses,
        counts: Mapping[int, int],
        record: Record,
        values: Callable[[int], str],
        seconds_of: Callable[[CostKind], float],
    ) -> None:
        """Add the times of one segment's nodes.

        Args:
            kinds: the classes of the graph's nodes.
            counts: how many nodes of each class the segment has.
            record: its record.
            values: returns the non-tensor arguments of a node of a user Function, as a text.
            seconds_of: returns the expected seconds of a kind, for nodes that were not timed one by one.
        """
        alone: Counter[int] = Counter()
        apart = 0.0
        for index, _, seconds in record.timing.nodes:
            one = kinds.node[index]
            kind = kinds.kinds[one]
            first = bool(kind.family) and self._runs_first(kind.family, record.worker)
            self._add(kind, "", seconds, 1, first)
            if kind.family and (value := values(index)):
                self._add(kind, value, seconds, 1, first)
            alone[one] += 1
            apart += seconds
        rest = {one: number - alone[one] for one, number in counts.items() if number > alone[one]}
        expected = {one: number * seconds_of(kinds.kinds[one]) for one, number in rest.items()}
        left = max(record.timing.steps - record.timing.waited - apart, 0.0)
        scale = left / max(sum(expected.values()), 1e-12)
        for one, number in rest.items():
            kind = kinds.kinds[one]
            if kind.family:
                self._runs_first(kind.family, record.worker)
            self._add(kind, "", scale * expected[one], number, False)

    def take(self) -> Iterator[MeanSample]:
        """Yield the means of what was added, and forget it; of a kind that also ran later than first, without its first
        runs."""
        sums, self._sums = self._sums, {}
        for (name, value, first), (took, prior, many) in sums.items():
            if not first or (name, value, False) not in sums:
                yield MeanSample(name, value, took / prior, took / many, first)

    def _add(self, kind: CostKind, value: str, seconds: float, many: int, first: bool) -> None:
        key = (kind.name, value, first)
        took, prior, nodes = self._sums.get(key, (0.0, 0.0, 0))
        self._sums[key] = took + seconds, prior + many * kind.prior, nodes + many

    def _runs_first(self, family: str, worker: str) -> bool:
        """Return whether a user Function runs for the first time on a worker, and note that it ran."""
        if (family, worker) in self._ran:
            return False
        self._ran.add((family, worker))
        return True
