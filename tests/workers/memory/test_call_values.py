"""The values of a call, as the store finds them."""

from __future__ import annotations

import numpy as np

from raygrad.proto.ir.program import Call, Program, Step
from raygrad.workers.memory.call_values import CallValues
from raygrad.workers.memory.eviction import NEVER
from raygrad.workers.memory.input_binding import InputBinding
from raygrad.workers.memory.named_values import NamedValues

from ...graph_nodes import op_node

ARRAY = np.zeros(3)
STEPS = (
    Step(0, op_node("neg", (0,), (0,)), (1,), (0,)),
    Step(1, op_node("neg", (1,), (0,)), (2,), (1,)),
)
PROGRAM = Program(3, (), ((0, 0),), (), (), STEPS, (), (), ())


def test_outside_of_a_call_there_are_none() -> None:
    call = CallValues()
    assert (call.slots, call.position(), call.absent, list(call.owned)) == ([None], 0, set(), [])
    assert call.next_uses.next(0, 0) == NEVER
    assert call.recipes(0) is None


def test_recipes_read_what_was_bound_to_a_slot_that_a_step_has_freed() -> None:
    slots = [ARRAY, None, None, None]
    binding = InputBinding(Call(1, 0, 0, b"", (ARRAY,)), PROGRAM, (), slots, NamedValues())
    call = CallValues((1, 0), PROGRAM, [(lambda _: None, step.frees) for step in STEPS], slots, lambda: 2, binding)
    slots[:3] = [None, None, -ARRAY]
    finder = call.recipes(2)
    assert finder is not None
    recipe = finder.of(2)
    assert recipe is not None
    assert (recipe.origin, sorted(recipe.steps), list(recipe.inputs)) == ((1, 0), [0, 1], [0])
    assert recipe.inputs[0] is ARRAY
    assert call.next_uses.next(1, 0) == 1
