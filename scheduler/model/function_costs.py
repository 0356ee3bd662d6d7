"""Function costs: the figure that a plan takes for one node of a user Function, and where it is from.

`measured_costs` collects what runs have shown, `Costs.figure` looks it up here. A Function that never ran is unknown,
not cheap: dividing cheap nodes costs milliseconds, running expensive ones in turn costs hours. How long it is taken to
run, `PricedGraph` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import log
from typing import Final, NamedTuple

from raygrad.proto.ir.nodes import Node, transforms_of

VJP_FACTOR: Final = 2.0
"""The expected time of a vjp, in times of what it differentiates: it computes a gradient for each argument."""

OTHER_VALUES: Final = "?"
"""Stands for values of non-tensor arguments that were not measured, where times differ between values."""


class Origin(StrEnum):
    """Where the figure of a node is from."""

    MEASURED = "measured"
    FIRST_RUN = "first run"
    """Measured where it ran for the first time, imports and compilation included."""
    SCALED = "scaled"
    """Measured with other shapes or other arguments."""
    FORWARD = "from its forward"
    HINT = "hint"
    """`Function.cost`."""
    UNKNOWN = "unknown"
    """A Function that never ran."""
    ASSUMED = "assumed"
    """A built-in op, hook or transfer that was not measured: from its bytes and floating-point operations."""


class Figure(NamedTuple):
    """The predicted seconds of one node."""

    seconds: float
    origin: Origin
    runs: int = 0
    """The runs that it was measured in."""

    def __str__(self) -> str:
        return f"measured {self.runs} times" if self.origin is Origin.MEASURED else str(self.origin)


class CostKind(NamedTuple):
    """The kind of a node, under which it is measured, with what is known of it beforehand."""

    name: str
    """See `Costs.kind_of`."""
    prior: float
    """See `Costs.prior_seconds`."""
    family: str = ""
    """Of a user Function, its name and the transforms, whatever the arguments: "@f00d vjp"; else ""."""
    depth: int = 0
    hint: float = 0.0
    """The hinted seconds of its forward; 0.0 for none."""
    values: str = ""
    """The non-tensor arguments, where times differ between them; else ""."""
    sized: bool = True
    """Whether the sizes of what it reads are known when it is planned."""


class KnownTime(NamedTuple):
    """What was measured of nodes of one kind."""

    prior: float
    """The mean prior of these nodes."""
    factor: float
    """Measured seconds over those of the prior."""
    runs: int
    first: bool = False
    """Only first runs of the code in a process were measured."""


class KnownKind(NamedTuple):
    """What was measured of a kind of node, whatever the values of non-tensor arguments, and per value."""

    time: KnownTime
    values: Mapping[str, KnownTime]
    sized: bool = True
    """As `CostKind.sized`."""


FunctionCosts = Mapping[str, Mapping[str, KnownKind]]
"""Per family and kind, what was measured of user Functions."""


def family_of(name: str) -> str:
    """Return the family of a kind of user Function; "" for another kind."""
    role, *code, _, _ = name.split(" ") if name.startswith("function ") else ("", "", "")
    return " ".join(code) if role else ""


def family_of_node(node: Node) -> str:
    """Return the family of a node of a user Function."""
    return " ".join((node.fn, *transforms_of(node)))


def function_figure(known: FunctionCosts, kind: CostKind, unknown: float) -> Figure:
    """Return the figure of a node of a user Function: from its own runs, those of its forward, the hint, or nothing.
    `unknown` is the time of a forward of which nothing is known."""
    own = _measured_figure(known.get(kind.family), kind)
    if own is not None:
        return own
    factor = VJP_FACTOR**kind.depth
    forward = known.get(kind.family.partition(" ")[0]) if kind.depth else None
    if forward:
        same = _of_values(forward, kind.values) if kind.values else _of_any_values(forward)
        if not same and not kind.hint:
            same = [max(_of_other_values(forward) or _of_any_values(forward), key=_seconds_of)]
        if same:
            return Figure(factor * _seconds_of(_nearest(same, kind)), Origin.FORWARD)
    if kind.hint:
        return Figure(factor * kind.hint, Origin.HINT)
    return Figure(factor * unknown, Origin.UNKNOWN)


def _measured_figure(kinds: Mapping[str, KnownKind] | None, kind: CostKind) -> Figure | None:
    """Return the figure by measurements of the family of a node; None if there are none that tell."""
    if not kinds:
        return None
    exact = kinds.get(kind.name)
    if kind.values:
        if exact is not None and kind.values in exact.values:
            return _figure_of(exact.values[kind.values], kind)
        same = _of_values(kinds, kind.values)
        if same:
            return _scaled_figure(same, kind)
        if kind.hint:
            return None  # the hint is for these values
        others = _of_other_values(kinds if exact is None or not exact.values else {kind.name: exact})
        if others:  # which of them the new one is like, nobody knows: too much costs least
            return Figure(kind.prior * max(one.factor for one in others), Origin.SCALED)
    if exact is not None:
        return _figure_of(exact.time, kind)
    return _scaled_figure(_of_any_values(kinds), kind)


def _scaled_figure(times: Sequence[KnownTime], kind: CostKind) -> Figure:
    nearest = _nearest(times, kind)
    return Figure(kind.prior * nearest.factor if kind.sized else _seconds_of(nearest), Origin.SCALED)


def _figure_of(time: KnownTime, kind: CostKind) -> Figure:
    return Figure(kind.prior * time.factor, Origin.FIRST_RUN if time.runs < 2 else Origin.MEASURED, time.runs)


def _seconds_of(time: KnownTime) -> float:
    return time.prior * time.factor


def _of_any_values(kinds: Mapping[str, KnownKind]) -> list[KnownTime]:
    """Return what was measured whatever the non-tensor arguments; of kinds whose sizes are known, if there are some."""
    return [one.time for one in kinds.values() if one.sized] or [one.time for one in kinds.values()]


def _of_values(kinds: Mapping[str, KnownKind], values: str) -> list[KnownTime]:
    """Return what was measured with some values of non-tensor arguments."""
    return [one.values[values] for one in kinds.values() if values in one.values]


def _of_other_values(kinds: Mapping[str, KnownKind]) -> list[KnownTime]:
    """Return what was measured with any values of non-tensor arguments; without first runs, if there are others."""
    times = [time for one in kinds.values() for time in one.values.values()]
    return [time for time in times if not time.first] or times


def _nearest(times: Sequence[KnownTime], kind: CostKind) -> KnownTime:
    """Return what was measured of arguments that are nearest in size; the longest where sizes are not known yet."""
    if not kind.sized:
        return max(times, key=_seconds_of)
    return min(times, key=lambda one: (abs(log(one.prior / kind.prior)), -one.factor))
