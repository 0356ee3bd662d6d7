"""Lowering: each segment of a plan becomes the program that its worker runs.

It is the last step of planning and decides nothing. Value ids become slots, numbered per segment in the order external,
imported, unpinned, made; the step that reads a slot last frees it, unless the end of the program needs it. The hints
`pin` and `near`, which placement has used, are removed, so that equal work has equal programs on any worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from raygrad.proto.ir.graph import KEEP_ON_WORKER, Graph, first_outputs
from raygrad.proto.ir.nodes import UNDEFINED, USER_CODE, placed
from raygrad.proto.ir.program import Program, Step

from ..model.plan import Plan, Segment


def lower(graph: Graph, plan: Plan) -> tuple[Program, ...]:
    """Return one program per segment of the plan, in plan order. O(nodes + edges). Equal input gives equal output."""
    return LazyPrograms(graph, plan)[:]


class LazyPrograms(Sequence[Program]):
    """The programs of a plan's segments, each lowered at its first access, so that the first segments of a large plan
    run before the last one is lowered."""

    def __init__(self, graph: Graph, plan: Plan, known: Sequence[Program] = ()) -> None:
        """`known` has the programs of the first segments, if these are lowered already: their plan was continued."""
        self._plan = plan
        self._lowering: _Lowering | None = None
        self._graph: Graph | None = graph
        self._known = known
        self._made: list[Program | None] = [None] * (len(plan.segments) - len(known))
        self._missing = len(self._made)

    def __len__(self) -> int:
        return len(self._known) + len(self._made)

    @overload
    def __getitem__(self, index: int) -> Program: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Program, ...]: ...
    def __getitem__(self, index: int | slice) -> Program | tuple[Program, ...]:
        if isinstance(index, slice):
            return tuple([self[one] for one in range(*index.indices(len(self)))])
        place = range(len(self))[index] - len(self._known)
        if place < 0:
            return self._known[place + len(self._known)]
        made = self._made[place]
        return self._make(place) if made is None else made

    def _make(self, place: int) -> Program:
        if self._lowering is None:
            assert self._graph is not None
            self._lowering = _Lowering(self._graph)
        index = len(self._known) + place
        nodes = self._plan.segments[index].nodes
        open_ended = self._plan.open_ended and bool(nodes) and nodes[-1] == len(self._lowering.graph.nodes) - 1
        made = self._made[place] = self._lowering.program(self._plan, self._plan.segments[index], open_ended=open_ended)
        self._missing -= 1
        if not self._missing:
            self._lowering = self._graph = None
        return made


class _Lowering:
    """Lowers segments with tables by value id that all segments share."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.first = first_outputs(graph)
        values = self.first[-1] + len(graph.nodes[-1].outputs) if graph.nodes else len(graph.externals)
        self.results = frozenset(value for value, where in graph.keep if where == KEEP_ON_WORKER)
        self.slot = [UNDEFINED] * (values + 1)  # entry -1 is that of an undefined input
        self.last_read = [-1] * values  # position of the last reader, counted through all segments
        self.moved = dict(graph.moved)
        self.position = 0  # of the first node of the segment at hand

    def program(self, plan: Plan, segment: Segment, *, open_ended: bool) -> Program:
        """Return the program of one segment. Call it once per segment, in any order."""
        nodes, first, slot, last_read, begin = self.graph.nodes, self.first, self.slot, self.last_read, self.position
        for position, index in enumerate(segment.nodes, begin):
            for value in nodes[index].inputs:
                if value >= 0:
                    last_read[value] = position
        imported = [plan.segments[source].exports[export].values for source, export in segment.imports]
        made = [
            value for index in segment.nodes for value in range(first[index], first[index] + len(nodes[index].outputs))
        ]
        results = [value for value in made if value in self.results] if self.results else []
        to_the_end = {*segment.pins, *results}
        for one in segment.exports:
            to_the_end.update(one.values)
        held: list[int] = [*segment.externals]  # value ids by slot
        for values in imported:
            held.extend(values)
        held.extend(value for value, _ in segment.unpins)
        come = {*held}
        again = come.intersection(made)  # what a node makes once more is read where it survived
        held.extend(value for value in made if (last_read[value] >= begin or value in to_the_end) and value not in come)
        for number, value in enumerate(held):
            slot[value] = number
        frees: list[list[int]] = [[] for _ in segment.nodes]
        for number, value in enumerate(held):
            if value not in to_the_end and last_read[value] >= begin:
                frees[last_read[value] - begin].append(number)
        slot_of = slot.__getitem__
        steps: list[Step] = []
        user_code: list[tuple[int, int]] = []
        for index, freed in zip(segment.nodes, frees, strict=True):
            node = nodes[index]
            outputs = node.outputs
            if isinstance(node, USER_CODE):
                user_code.append((index, self.moved.get(index, index)))
            lowered = placed(node, tuple(map(slot_of, node.inputs)), outputs)
            places = slot[first[index] : first[index] + len(outputs)]
            if again:
                places = [UNDEFINED if value in again else place for value, place in enumerate(places, first[index])]
            steps.append(Step(index, lowered, tuple(places), tuple(freed)))
        program = Program(
            slots=len(held),
            specs=self.graph.specs,
            externals=tuple([(value, slot[value]) for value in segment.externals]),
            imports=tuple([tuple([slot[value] for value in values]) for values in imported]),
            unpins=tuple([(value, slot[value], last) for value, last in segment.unpins]),
            steps=tuple(steps),
            exports=tuple([tuple([slot[value] for value in export.values]) for export in segment.exports]),
            pins=tuple([(slot[value], value) for value in segment.pins]),
            results=tuple([(slot[value], value) for value in results]),
            open_base=first[segment.nodes[-1]] + 1 if open_ended else -1,
            user_code=tuple(user_code),
        )
        for value in held:
            slot[value] = UNDEFINED
        self.position += len(segment.nodes)
        return program
