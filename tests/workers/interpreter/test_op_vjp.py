"""What a step says of the derivative of a built-in op is read once, and what its slots hold when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raygrad.errors import MissingDerivative
from raygrad.proto.graph import ROLE_OP, UNDEFINED, VJP, Node, Spec
from raygrad.proto.program import Step
from raygrad.workers.interpreter.op_vjp import OpVjp

SPECS = (Spec("array", (2,), "float64"),)


def step(fn: str, needs: tuple[int, ...], inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Step:
    params: Any = ((), needs, tuple(0 for _ in needs), (0,))
    return Step(3, Node(ROLE_OP, fn, (VJP,), inputs, outputs, params), outputs, ())


def test_gradients_that_nobody_reads_are_not_wanted() -> None:
    one = OpVjp.of(step("mul", (1, 1), (0, 1, 2), (-1, 3)), SPECS, "cpu")
    assert (one.wanted, one.wants) == ([(1, 3)], (0, 1))
    assert (one.saved_slots, one.grad_slots) == ((0, 1), (2,))
    assert one.inputs == [((2,), np.dtype(float))] * 2
    assert one.op.name == "mul"


def test_what_is_undefined_stays_so() -> None:
    one = OpVjp.of(step("mul", (1, 1), (0, UNDEFINED, 2), (3, 4)), SPECS, "cpu")
    slots: list[Any] = ["a", "b", None, "c", "d"]
    assert one.grads(slots) == [None]
    assert one.context(slots).saved_tensors == ["a", None]
    one.undefined(slots)
    assert slots == ["a", "b", None, None, None]


def test_a_rule_that_is_not_there_is_named() -> None:
    with pytest.raises(MissingDerivative, match="isnan"):
        OpVjp.of(step("isnan", (1,), (0, 1), (2,)), SPECS, "cpu")
