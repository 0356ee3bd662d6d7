"""A graph with the names, kinds and source lines that a reader knows, and its edges.

Explanations, reports and drawings take their labels from it; the client supplies the names of user code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, cast

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.nodes import ROLE_SUM, Emit, GradSum, HookCall, Node

FORWARD, BACKWARD, HOOK = "forward", "backward", "hook"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledGraph:
    """A graph with labels; entry i of each tuple is that of node i."""

    names: tuple[str, ...]
    """Such as "mul" or "Solve"; a vjp has the name of what it differentiates."""
    kinds: tuple[str, ...]
    """One of "forward", "backward" (vjps, and sums of gradients) and "hook"."""
    places: tuple[str, ...]
    """The user's line that made it, or ""."""
    edges: tuple[tuple[int, int], ...]
    """(source, target), each once, by target."""

    def label(self, node: int) -> str:
        """Return a node's name as it stands in tables and drawings: a vjp has a "∂" before it."""
        return ("∂" if self.kinds[node] == BACKWARD and self.names[node] != "+" else "") + self.names[node]


def label_graph(graph: Graph, name_of: Callable[[str], str], places: Sequence[Hashable | None]) -> LabelledGraph:
    """Return a graph with labels. `name_of` returns the user's name for code that is named "@..." in the graph."""
    maker = [-1] * len(graph.externals)
    edges: list[tuple[int, int]] = []
    for index, node in enumerate(graph.nodes):
        maker.extend([index] * len(node.outputs))
    for index, node in enumerate(graph.nodes):
        sources = {maker[value] for value in node.inputs if value >= 0} - {-1}
        edges.extend((source, index) for source in sorted(sources))
    return LabelledGraph(
        names=tuple(_name(node, name_of) for node in graph.nodes),
        kinds=tuple(_kind(node) for node in graph.nodes),
        places=_texts([*places, *[None] * (len(graph.nodes) - len(places))]),
        edges=tuple(edges),
    )


def _texts(places: Sequence[Hashable | None]) -> tuple[str, ...]:
    """Return source locations as texts. Each is converted once: nodes of a loop share one, and a lookup takes time."""
    known = {place: "" if place is None else str(place) for place in set(places)}
    return tuple([known[place] for place in places])


def _name(node: Node, name_of: Callable[[str], str]) -> str:
    if isinstance(node, GradSum):
        return "+"
    return name_of(node.fn) if node.fn.startswith("@") else node.fn


def _kind(node: Node) -> str:
    if isinstance(node, HookCall | Emit):
        return HOOK
    return BACKWARD if node.depth or node.role == ROLE_SUM else FORWARD


def as_plain_data(value: Any) -> Any:
    """Return data as dicts, lists, texts and numbers, which JSON can hold."""
    if isinstance(value, Enum):
        return str(value)
    if is_dataclass(value):
        return {field.name: as_plain_data(getattr(value, field.name)) for field in fields(value)}
    data: Any = value
    if isinstance(data, tuple) and hasattr(cast(Any, data), "_asdict"):  # a named tuple
        return {name: as_plain_data(entry) for name, entry in cast(Any, data)._asdict().items()}
    if isinstance(value, tuple | list):
        return [as_plain_data(entry) for entry in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        return {str(key): as_plain_data(entry) for key, entry in cast("Mapping[Any, Any]", value).items()}
    return value
