"""Where values of a simulation come from: which attempts at impure nodes they were computed from (H2).

The virtual event loop tells what segments make and read. No value may be computed from two attempts at one node, and a
client may not see values of two: then something raises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from raygrad.errors import InvariantViolation
from raygrad.proto.ir.graph import first_outputs

from ..planning.planner import Planned

Origin: TypeAlias = Mapping[tuple[int, int], int]
"""By (run, impure node), the attempt at it from which a value was computed."""

Holder: TypeAlias = tuple[int, int, int] | tuple[str, int]
"""What holds values: an object, by its `AwaitedKey`, or ("pinned", worker)."""


@dataclass(slots=True)
class Origins:
    """The origins of all values of a simulation."""

    impure: Collection[tuple[int, int]] = ()
    """(run, node) of each that returns something else each time."""
    compared: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Those whose next attempt has to agree with the one before."""
    seen: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """(run, value) of what the client has read, or runs that are forgotten."""
    _held: dict[Holder, dict[tuple[int, int], Origin]] = field(
        default_factory=dict[Holder, "dict[tuple[int, int], Origin]"]
    )
    _attempts: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    _counted: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Nodes of which an attempt counts."""
    _client: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    def agrees(self, run: int, nodes: Iterable[int]) -> bool:
        """Enter that nodes have run; return whether those that have to agree with earlier attempts do, by their
        fingerprints."""
        mine = [(run, node) for node in nodes if (run, node) in self.impure]
        differ = any([one in self.compared and one in self._counted for one in mine])
        self._attempts.update(mine)
        self._counted.update(mine)
        return not differ

    def computed(self, planned: Planned, run: int, index: int, read: Mapping[int, Origin]) -> dict[int, Origin]:
        """Return the origins of what a segment makes from values with those of `read`."""
        graph, made = planned.graph, dict(read)
        first = first_outputs(graph)
        for node in planned.plan.segments[index].nodes:
            inputs = [made.get(value, {}) for value in graph.nodes[node].inputs if value >= 0]
            origin = merged(inputs, f"node {node} of run {run}")
            if (run, node) in self.impure:
                origin[run, node] = self._attempts[run, node]
            made.update((first[node] + place, origin) for place in range(len(graph.nodes[node].outputs)))
        return made

    def hold(self, holder: Holder, run: int, values: Mapping[int, Origin]) -> None:
        """Enter that something holds values of a run."""
        held = self._held.setdefault(holder, {})
        held.update(((run, value), origin) for value, origin in values.items())

    def of(self, holder: Holder, run: int, value: int) -> Origin:
        """Return the origin of a value that something holds."""
        return self._held.get(holder, {}).get((run, value), {})

    def void(self, run: int, nodes: Iterable[int]) -> None:
        """Enter that attempts at nodes count no more."""
        for node in nodes:
            self._counted.discard((run, node))
            self.compared.discard((run, node))

    def read(self, run: int, value: int, origin: Origin) -> None:
        """Enter that the client has read a value."""
        self.seen.add((run, value))
        self._client = merged([self._client, origin], "what the client has read")


def merged(origins: Iterable[Origin], what: str) -> dict[tuple[int, int], int]:
    """Return the origin of what is computed from values.

    Raises InvariantViolation if they come from different attempts at one node.
    """
    found: dict[tuple[int, int], int] = {}
    for origin in origins:
        for name, attempt in origin.items():
            if found.setdefault(name, attempt) != attempt:
                raise InvariantViolation(
                    f"{what} is computed from two attempts at node {name[1]} of run {name[0]}: {found[name]}, {attempt}"
                )
    return found
