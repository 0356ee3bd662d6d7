"""Costs per argument: times of user Functions per value of their non-tensor arguments, such as a number of steps.

`measured_costs` enters them. They count where they differ so much that a plan has to know the value; else values share
what was measured, so that a new one is no new plan.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from raygrad.proto.ir.specs import UnknownSpec

from .function_costs import FunctionCosts, KnownKind, KnownTime, family_of
from .running_estimates import Estimate

MAX_RATIO: Final = 4.0
"""Times that differ by more between values are kept per value."""

MIN_RATIO: Final = 2.0
"""Times kept per value that no longer differ by so much are kept together again."""

MIN_SECONDS: Final = 20e-3
"""Times that are all shorter do not count: a pause of the machine is as long, and a plan for each value costs more."""

MAX_VALUES: Final = 64
"""Values of a kind that are remembered, the last ones."""

MAX_KINDS: Final = 1024
"""Kinds of nodes of user Functions of which times are remembered, the last ones."""

MIN_PRIOR_SECONDS: Final = 1e-9
"""The smallest prior of a measured node: every node takes time."""

_NO_ESTIMATES: Mapping[str, Estimate] = MappingProxyType({})


class ValueCosts:
    """What was measured per kind of node and value; iterates over the kinds."""

    def __init__(self) -> None:
        self._kinds: dict[str, OrderedDict[str, Estimate]] = {}
        self._apart: set[str] = set()
        self.functions: Mapping[str, frozenset[str]] = MappingProxyType({})
        """By name of the user Functions whose times differ between values, the values that are known."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def of(self, kind: str) -> Mapping[str, Estimate]:
        """Return what was measured of a kind of node, by value."""
        return self._kinds.get(kind, _NO_ESTIMATES)

    def rows(self) -> list[tuple[str, str, Estimate]]:
        """Return (kind, value, estimate) where times differ between values."""
        apart = [kind for kind in self._kinds if _function_of(kind) in self.functions]
        return [(kind, value, one) for kind in apart for value, one in self._kinds[kind].items()]

    def take(self, kind: str, value: str, factor: float, seconds: float, *, first: bool) -> None:
        """Enter a measurement; see `Estimate.take`."""
        known = self._kinds.setdefault(kind, OrderedDict())
        new = value not in known
        known.setdefault(value, Estimate()).take(factor, seconds, first=first)
        known.move_to_end(value)
        if len(known) > MAX_VALUES:
            known.popitem(last=False)
        before = kind in self._apart
        if self._differ(kind) != before or (before and new):
            self._settle()

    def forget(self, kind: str) -> None:
        """Forget a kind of node."""
        if self._kinds.pop(kind, None) is not None and kind in self._apart:
            self._apart.discard(kind)
            self._settle()

    def update(self, data: Mapping[str, Mapping[str, Estimate]]) -> None:
        """Take over what was measured in another session."""
        self._kinds.update({kind: OrderedDict(some) for kind, some in data.items()})
        for kind in data:
            self._differ(kind)
        self._settle()

    def _differ(self, kind: str) -> bool:
        """Return whether times of a kind differ between values, and note it. First runs count: whether it was imports
        or the value that took long is seen when it comes again, and until then too long a time costs least."""
        known = self._kinds[kind].values()
        factors = [one.factor for one in known]
        ratio = max(factors) / min(factors)
        long = any(one.seconds >= MIN_SECONDS for one in known)
        if long and ratio > (MIN_RATIO if kind in self._apart else MAX_RATIO):
            self._apart.add(kind)
            return True
        self._apart.discard(kind)
        return False

    def _settle(self) -> None:
        found: dict[str, set[str]] = {}
        for kind in self._apart:
            found.setdefault(_function_of(kind), set())
        for kind, known in self._kinds.items():
            name = _function_of(kind)
            if name in found:
                found[name].update(known)
        self.functions = {name: frozenset(values) for name, values in found.items()}


def _function_of(kind: str) -> str:
    """Return the name of the user Function of a kind of node, whatever the transforms."""
    return kind.split(" ", 2)[1]


class KnownFunctions:
    """What was measured of user Functions, as plans have it; tables of several moments share what did not change.

    A program whose code captures what changes has a new kind of node at each step: those that were measured longest ago
    are forgotten.
    """

    def __init__(self) -> None:
        self._table: dict[str, dict[str, KnownKind]] = {}
        self._changed: set[str] = set()
        self._recent: OrderedDict[str, None] = OrderedDict()
        """Kinds of user Functions, by when they were measured last."""

    def surplus(self, kind: str) -> str:
        """Take note of a kind of node that was measured; return the kind that is to be forgotten for it, or ""."""
        if not family_of(kind):
            return ""
        self._changed.add(kind)
        self._recent[kind] = None
        self._recent.move_to_end(kind)
        if len(self._recent) <= MAX_KINDS:
            return ""
        gone, _ = self._recent.popitem(last=False)
        self._changed.add(gone)
        return gone

    def table(self, estimate_of: Callable[[str], Estimate | None], values: ValueCosts) -> FunctionCosts:
        """Return what is known, by family and kind; the table is not changed afterwards."""
        table = self._table = {**self._table}
        for family in {family_of(kind) for kind in self._changed}:
            table[family] = {**table.get(family, {})}
        for kind in self._changed:
            family, one = family_of(kind), estimate_of(kind)
            if one is not None:
                by_value = {value: _known_time(each) for value, each in values.of(kind).items()}
                sized = UnknownSpec.kind not in kind.rpartition(" ")[2].partition(">")[0].split(",")
                table[family][kind] = KnownKind(_known_time(one), by_value, sized)
            else:
                table[family].pop(kind, None)
        for family in {family_of(kind) for kind in self._changed}:
            if not table[family]:
                del table[family]
        self._changed.clear()
        return table


def _known_time(estimate: Estimate) -> KnownTime:
    prior = max(estimate.seconds / estimate.factor, MIN_PRIOR_SECONDS)
    return KnownTime(prior, estimate.factor, estimate.count, estimate.first)
