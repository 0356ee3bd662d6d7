"""Values of a worker that were let go, and are made again when somebody asks: by the step that made them.

Rules of this file: which steps may run again, and what it takes. That is what gives the same bits for certain:
built-in ops, and forwards of Functions that say they are pure (H2); no gradient is made again, since that would take
all that was saved for it. A second run is not noticed: it emits nothing, and nothing is learned from it. When
something is let go is decided in `making_way`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from raygrad.proto.ir.nodes import UNDEFINED, FunctionCall, FunctionVjp, OpCall, reruns
from raygrad.proto.ir.program import Program, Step

from ..interpreter.emit import emitting_to
from ..interpreter.functions import Execute
from ..values.contexts import Context
from ..values.spill_files import Away, Keeper

MOST: Final = 200
"""So many steps are run again at most for one value."""
Name = tuple[int, int]
"""A pinned value: (run, value); or a segment: (run, segment)."""


class _Gone:
    """Stands for what is not there any more."""


GONE: Final = _Gone()


class Piece(NamedTuple):
    """A step of a program that may run again."""

    execute: Execute
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    """Slots, both."""


class Recipe(NamedTuple):
    """How a value is made again."""

    origin: Name
    """The run and segment whose slots these are."""
    pieces: dict[int, Piece]
    """By number in the program."""
    size: int
    """Of the list of slots that they run over."""
    slot: int
    """Where they leave the value."""
    inputs: dict[int, Any]
    """By slot, what they read and do not make: values, or what stands for them."""

    def whole(self) -> Recipe:
        """Return it with how those of its inputs are made again that are of the same origin, so that nothing that
        several of them read is made more than once."""
        pieces: dict[int, Piece] = {}
        inputs: dict[int, Any] = {}
        stack: list[Recipe] = [self]
        seen = {self.slot}
        while stack:
            one = stack.pop()
            pieces.update(one.pieces)
            for slot, value in one.inputs.items():
                if type(value) is not Again or value.recipe.origin != self.origin:
                    inputs[slot] = value
                elif slot not in seen:
                    seen.add(slot)
                    stack.append(value.recipe)
        return self._replace(pieces=pieces, inputs=inputs)

    def run(self, keeper: Keeper) -> Any:
        """Return the value, made again."""
        slots: list[Any] = [None] * self.size
        needed, frees = {self.slot}, dict[int, list[int]]()
        for number in sorted(self.pieces, reverse=True):
            reads, makes = self.pieces[number].reads, self.pieces[number].makes
            frees[number] = [slot for slot in {*reads, *makes} if slot not in needed]
            needed.update(reads)
        for number in sorted(self.pieces):
            execute, reads, _ = self.pieces[number]
            for slot in reads:
                if slots[slot] is None and slot in self.inputs:
                    value = self.inputs[slot]
                    slots[slot] = value.back(keeper) if isinstance(value, Away) else value
            execute(slots)
            for slot in frees[number]:
                slots[slot] = None
        return slots[self.slot]


class Again(Away):
    """Stands for a value that is made again when it is asked for."""

    __slots__ = ("_freed", "recipe")

    def __init__(self, recipe: Recipe, freed: bool = False) -> None:
        """What a context saved can be `freed` then, as backward frees it."""
        self.recipe = recipe
        self._freed = freed

    def left(self, like: Context) -> Again:
        """Return what makes a context as a backward that has changed nothing on it leaves it, which is `like` that."""
        live = like._live
        return Again(self.recipe, self._freed or (live is not None and not live.readable))

    def back(self, keeper: Keeper) -> Any:
        with keeper.unnoticed(), emitting_to(None):
            made = self.recipe.whole().run(keeper)
        if type(made) is Context:
            if self._freed and made._live is not None:
                made = Context(made._live.freed())
            made.again = self
        return made


def repeats(step: Step) -> bool:
    """Tell whether values are made again here by running a step a second time."""
    return isinstance(step.node, OpCall | FunctionCall) and reruns(step.node)


def _makes_context(step: Step) -> bool:
    """Tell whether a step makes a context which may be made again, or leaves one."""
    return isinstance(step.node, FunctionVjp) or (isinstance(step.node, FunctionCall) and repeats(step))


def contexts_in(program: Program) -> tuple[int, ...]:
    """Return the slots of pinned values that are contexts which may be made again: of Functions that say they are pure,
    and what backward has left of any."""
    made = {step.outputs[0] for step in program.steps if step.outputs and _makes_context(step)}
    return tuple([slot for slot, _ in program.pins if slot in made]) if made else ()


class Recipes:
    """How the values of one program are made again, at one of its steps."""

    def __init__(
        self,
        origin: Name,
        program: Program,
        steps: Sequence[tuple[Execute, tuple[int, ...]]],
        position: int,
        find: Callable[[int, bool], Any],
    ) -> None:
        """`find` gives what there was in a slot that no step has filled, or that was not freed before the step at
        `position`: of what was it is told so."""
        self._origin = origin
        self._steps = steps
        self._size = program.slots + 1
        self._find = find
        before = program.steps[:position]
        self._makers = {slot: number for number, step in enumerate(before) for slot in step.outputs if slot >= 0}
        self._freed = {slot for step in before for slot in step.frees}
        self._program = program

    def of(self, slot: int) -> Recipe | None:
        """Return how a value is made again from what is there, None if it cannot be."""
        inputs: dict[int, Any] = {}
        numbers: set[int] = set()
        stack = [slot]
        while stack:
            number = self._makers.get(stack.pop(), -1)
            if number in numbers:
                continue
            if number < 0 or len(numbers) == MOST or not repeats(self._program.steps[number]):
                return None
            numbers.add(number)
            for source in self._program.steps[number].node.inputs:
                if source == UNDEFINED or source in inputs:
                    continue
                value = self._find(source, source in self._freed)
                if value is GONE:
                    stack.append(source)
                else:
                    inputs[source] = value
        pieces = {number: self._piece(number) for number in numbers}
        return Recipe(self._origin, pieces, self._size, slot, inputs)

    def _piece(self, number: int) -> Piece:
        step = self._program.steps[number]
        reads = tuple({source for source in step.node.inputs if source >= 0})
        return Piece(self._steps[number][0], reads, tuple([slot for slot in step.outputs if slot >= 0]))

    def of_context(self, slot: int, context: Context) -> Again | None:
        """Return what makes a context again, or what backward has left of one."""
        recipe = self.of(slot)
        if recipe is not None:
            return Again(recipe)
        number = self._makers.get(slot, -1)
        if number < 0 or not context.unchanged:
            return None
        recipe = self.of(self._program.steps[number].node.inputs[0])
        return None if recipe is None else Again(recipe).left(context)
