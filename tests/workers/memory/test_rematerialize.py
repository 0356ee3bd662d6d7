"""What was let go is made again from what is there, and nothing more than once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from raygrad.proto.ir.nodes import GradSum, Node
from raygrad.proto.ir.program import Program, Step
from raygrad.workers.memory.rematerialize import (
    MAX_STEPS,
    RecipeFinder,
    RecipeValue,
    can_rerun,
    rerunnable_contexts,
)
from raygrad.workers.values.placeholders import GONE, Placeholder

from ...graph_nodes import function_node, function_vjp_node, hook_node, op_node, op_vjp_node, plain_node


class Store:
    """Counts what is brought back."""

    def __init__(self) -> None:
        self.blocks = 0

    def load(self, region: Any) -> Any:
        return region

    @contextmanager
    def silently(self) -> Generator[None]:
        self.blocks += 1
        yield


def op(index: int, source: int, target: int, *frees: int) -> Step:
    return Step(index, op_node("neg", (source,), (0,)), (target,), frees)


class Chain:
    """Steps of which each adds one to what the one before has made, in slots 0, 1, 2..."""

    def __init__(self, length: int) -> None:
        self.ran: list[int] = []
        steps = tuple([op(i, i, i + 1, *([i] if i else [])) for i in range(length)])
        self.program = Program(length + 1, (), (), (), (), steps, (), (), ())
        self.compiled = [(self._adding(i), step.frees) for i, step in enumerate(steps)]
        self.slots: list[Any] = [np.zeros(1), *[None] * length, None]

    def _adding(self, number: int) -> Any:
        def add(slots: list[Any]) -> None:
            self.ran.append(number)
            slots[number + 1] = slots[number] + 1

        return add

    def recipes(self, position: int) -> RecipeFinder:
        return RecipeFinder((1, 0), self.program, self.compiled, position, self.find)

    def find(self, slot: int, freed: bool) -> Any:
        return GONE if freed else self.slots[slot]


def test_what_a_step_reads_and_is_gone_is_made_first() -> None:
    chain, store = Chain(5), Store()
    recipe = chain.recipes(4).of(4)
    assert recipe is not None
    again = RecipeValue(recipe)
    assert again.restore(store).tolist() == [4.0]
    assert (chain.ran, store.blocks) == ([0, 1, 2, 3], 1)
    assert again.restore(store).tolist() == [4.0], "as often as it is asked for"


def test_what_was_let_go_itself_is_made_once_for_all_that_read_it() -> None:
    chain, store = Chain(6), Store()
    for slot in (1, 2, 3, 4):
        chain.slots[slot] = np.full(1, float(slot))
    steps = tuple([step._replace(frees=()) for step in chain.program.steps])
    chain.program = chain.program._replace(steps=steps)
    for slot in (1, 2, 3, 4):
        recipe = chain.recipes(5).of(slot)
        assert recipe is not None
        chain.slots[slot] = RecipeValue(recipe)
    assert chain.slots[4].restore(store).tolist() == [4.0]
    assert chain.ran == [0, 1, 2, 3]


def test_what_stands_for_an_input_is_brought_when_it_is_read() -> None:
    class There(Placeholder):
        def restore(self, store: Any) -> Any:
            return np.full(1, 7.0)

    chain = Chain(2)
    chain.slots[0] = There()
    recipe = chain.recipes(1).of(1)
    assert recipe is not None
    assert RecipeValue(recipe).restore(Store()).tolist() == [8.0]


def test_what_was_never_made_here_or_takes_too_much_is_not_made_again() -> None:
    chain = Chain(MAX_STEPS + 2)
    assert chain.recipes(0).of(1) is None, "that step has not run yet"
    assert chain.recipes(1).of(0) is None, "it came with the call"
    assert chain.recipes(MAX_STEPS).of(MAX_STEPS) is not None
    assert chain.recipes(MAX_STEPS + 1).of(MAX_STEPS + 1) is None


@pytest.mark.parametrize(
    ("node", "may"),
    [
        (op_node("sin", (0,), (0,)), True),
        (op_vjp_node("sin", (0,), (0,)), False),
        (plain_node(GradSum, (0, 1), (0,)), False),
        (function_node("@f", (0,), (0, 0), (), recorded=False, pure=True), True),
        (function_node("@f", (0,), (0, 0), (), recorded=False), False),
        (function_vjp_node("@f", (0,), (0, 0)), False),
        (hook_node("@f", (0,), (0,)), False),
    ],
)
def test_what_may_run_again_is_what_gives_the_same_bits_for_certain(node: Node, may: bool) -> None:
    step = Step(0, node, (1, 2), ())
    assert can_rerun(step) is may
    program = Program(3, (), (), (), (), (step,), (), ((1, 8), (2, 9)), ())
    assert rerunnable_contexts(program) == ((1,) if node.role == "function" and (may or node.depth) else ())
