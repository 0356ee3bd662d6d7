"""Recipes: how a value that was dropped from memory is made again, by the steps that made it.

Only steps that give the same bits for certain may run again: built-in ops, and forwards of Functions that say they are
pure (H2). No gradient is rematerialised, since that would take all that was saved for it. A second run is silent: its
emits are dropped and nothing is learned from it. `store` decides when a value is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.random_streams import ALL_ALIKE
from raygrad.proto.ir.nodes import UNDEFINED, FunctionCall, FunctionVjp, OpCall, reruns
from raygrad.proto.ir.program import Program, Step

from ..values.contexts import Context
from ..values.placeholders import GONE, Placeholder, Restorer, ValueState
from ..values.slots import Execute

MAX_STEPS: Final = 200
"""Steps that run again for one value, at most."""
Origin = tuple[int, int]
"""A segment of a run: (run, segment)."""


class RecipeStep(NamedTuple):
    """A step of a program that may run again."""

    execute: Execute
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    """Slots, both."""


class Recipe(NamedTuple):
    """The steps that make a value again, and what they read."""

    origin: Origin
    """The run and segment whose slots these are."""
    steps: dict[int, RecipeStep]
    """By number in the program."""
    size: int
    """Of the list of slots that they run over."""
    slot: int
    """Where they leave the value."""
    inputs: dict[int, Any]
    """By slot, what they read and do not make: values, or what stands for them."""
    paths: Mapping[int, tuple[Any, ...]] = ALL_ALIKE
    """By node index, the paths by which the steps draw random numbers (`Call.paths`)."""

    def flattened(self) -> Recipe:
        """Return the recipe merged with those of its inputs that are recipes of the same origin, so that no step runs
        twice although several of them read its output."""
        steps: dict[int, RecipeStep] = {}
        inputs: dict[int, Any] = {}
        stack: list[Recipe] = [self]
        seen = {self.slot}
        while stack:
            one = stack.pop()
            steps.update(one.steps)
            for slot, value in one.inputs.items():
                if type(value) is not RecipeValue or value.recipe.origin != self.origin:
                    inputs[slot] = value
                elif slot not in seen:
                    seen.add(slot)
                    stack.append(value.recipe)
        return self._replace(steps=steps, inputs=inputs)

    def run(self, store: Restorer) -> Any:
        """Run the steps, and return the value."""
        state.here.paths = self.paths
        slots: list[Any] = [None] * self.size
        needed, frees = {self.slot}, dict[int, list[int]]()
        for number in sorted(self.steps, reverse=True):
            reads, makes = self.steps[number].reads, self.steps[number].makes
            frees[number] = [slot for slot in {*reads, *makes} if slot not in needed]
            needed.update(reads)
        for number in sorted(self.steps):
            execute, reads, _ = self.steps[number]
            for slot in reads:
                if slots[slot] is None and slot in self.inputs:
                    value = self.inputs[slot]
                    slots[slot] = value.restore(store) if isinstance(value, Placeholder) else value
            execute(slots)
            for slot in frees[number]:
                slots[slot] = None
        return slots[self.slot]


class RecipeValue(Placeholder):
    """Stands for a value that is made again when it is read."""

    __slots__ = ("_freed", "recipe")
    state = ValueState.RECIPE

    def __init__(self, recipe: Recipe, freed: bool = False) -> None:
        """With `freed`, a context comes back without what it saved, as backward leaves it."""
        self.recipe = recipe
        self._freed = freed

    def after_backward(self, like: Context) -> RecipeValue:
        """Return the recipe of a context as an unmodified backward leaves it: `like` tells whether it was freed."""
        live = like._live
        return RecipeValue(self.recipe, self._freed or (live is not None and not live.readable))

    def restore(self, store: Restorer) -> Any:
        with store.silently():
            made = self.recipe.flattened().run(store)
        if type(made) is Context:
            if self._freed and made._live is not None:
                made = Context(made._live.freed())
            made.recipe = self
        return made


def can_rerun(step: Step) -> bool:
    """Tell whether a step gives the same bits whenever it runs again."""
    return isinstance(step.node, OpCall | FunctionCall) and reruns(step.node)


def rerunnable_contexts(program: Program) -> tuple[int, ...]:
    """Return the slots of pinned contexts that may be made again: those of pure Functions, and those that a backward
    left, of any Function."""
    made = {
        step.outputs[0]
        for step in program.steps
        if isinstance(step.node, FunctionVjp) or (isinstance(step.node, FunctionCall) and can_rerun(step))
    }
    return tuple([slot for slot, _ in program.pins if slot in made]) if made else ()


class RecipeFinder:
    """Finds recipes for the values of one program, as things stand at one of its steps."""

    def __init__(
        self,
        origin: Origin,
        program: Program,
        steps: Sequence[tuple[Execute, tuple[int, ...]]],
        position: int,
        find: Callable[[int, bool], Any],
        paths: Mapping[int, tuple[Any, ...]] = ALL_ALIKE,
    ) -> None:
        """`find(slot, freed)` gives what a slot holds or, if a step before `position` has freed it, held when the call
        began; GONE if that is released, or if a step made it."""
        self._origin = origin
        self._steps = steps
        self._size = program.slots + 1
        self._find = find
        self._paths = paths
        before = program.steps[:position]
        self._makers = {slot: number for number, step in enumerate(before) for slot in step.outputs if slot >= 0}
        self._freed = {slot for step in before for slot in step.frees}
        self._program = program

    def of(self, slot: int) -> Recipe | None:
        """Return the recipe that makes a slot's value from what is still held; None if there is none."""
        inputs: dict[int, Any] = {}
        numbers: set[int] = set()
        stack = [slot]
        while stack:
            number = self._makers.get(stack.pop(), -1)
            if number in numbers:
                continue
            if number < 0 or len(numbers) == MAX_STEPS or not can_rerun(self._program.steps[number]):
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
        steps = {number: self._recipe_step(number) for number in numbers}
        return Recipe(self._origin, steps, self._size, slot, inputs, self._paths)

    def _recipe_step(self, number: int) -> RecipeStep:
        step = self._program.steps[number]
        reads = tuple({source for source in step.node.inputs if source >= 0})
        return RecipeStep(self._steps[number][0], reads, tuple([slot for slot in step.outputs if slot >= 0]))

    def of_context(self, slot: int, context: Context) -> RecipeValue | None:
        """Return the recipe of a context, or of what a backward left of one; None if there is none."""
        recipe = self.of(slot)
        if recipe is not None:
            return RecipeValue(recipe)
        number = self._makers.get(slot, -1)
        if number < 0 or not context.unchanged:
            return None
        recipe = self.of(self._program.steps[number].node.inputs[0])
        return None if recipe is None else RecipeValue(recipe).after_backward(context)
