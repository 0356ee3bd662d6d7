"""What a step says of the derivative of a built-in op is read once, and what its slots hold when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raygrad.errors import MissingDerivative
from raygrad.proto.ir.nodes import UNDEFINED
from raygrad.proto.ir.specs import ArraySpec
from raygrad.workers.interpreter.op_vjp import OpDerivative, OpRule

from ...graph_nodes import op_vjp_node

SPECS = (ArraySpec((2,), "float64"),)


def derivative(fn: str, wanted: tuple[int, ...], inputs: tuple[int, ...], targets: tuple[int, ...]) -> OpDerivative:
    node = op_vjp_node(fn, inputs, (0,) * len(targets), wanted, tuple(0 for _ in wanted), (0,))
    return OpDerivative.of(node, targets, OpRule.of(node, SPECS, "cpu"))


def test_gradients_that_nobody_reads_are_not_wanted() -> None:
    one = derivative("mul", (1, 1), (0, 1, 2), (-1, 3))
    assert (one.wanted, one.wants) == ([(1, 3)], (0, 1))
    assert (one.saved_slots, one.grad_slots) == ((0, 1), (2,))
    assert one.inputs == [((2,), np.dtype(float))] * 2
    assert one.op.name == "mul"


def test_what_is_undefined_stays_so() -> None:
    one = derivative("mul", (1, 1), (0, UNDEFINED, 2), (3, 4))
    slots: list[Any] = ["a", "b", None, "c", "d"]
    assert one.grads(slots) == [None]
    assert one.context(slots).saved_tensors == ["a", None]
    one.undefined(slots)
    assert slots == ["a", "b", None, None, None]


def test_a_rule_that_is_not_there_is_named() -> None:
    with pytest.raises(MissingDerivative, match="isnan"):
        derivative("isnan", (1,), (0, 1), (2,))
