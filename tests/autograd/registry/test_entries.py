"""How the fields of an entry are read (AC-02, AC-03, AC-12); `test_registry.py` has the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raygrad.autograd.registry.entries import AutogradConfig, Derivative, UserKernel, check_device, dtype_name
from raygrad.autograd.registry.registry import Op


def resolved(operands: tuple[str, ...], outputs: int = 1, **options: Any) -> Derivative:
    op = Op("test_entries", operands, outputs=outputs)
    return Derivative(AutogradConfig(op=op.name, device="*", backward=lambda ctx, g: g, **options), op)


@pytest.mark.parametrize(
    ("operands", "saves", "positions"),
    [
        (("x",), None, (0,)),
        (("x", "y"), None, (0, 1)),
        (("x", "y", "z"), None, ()),
        (("*rest",), None, ()),
        (("x", "y"), "inputs", (0, 1)),
        (("x", "y"), "none", ()),
        (("x", "y"), "output", (-1,)),
        (("x", "y"), "a", (0,)),
        (("x", "y"), "b", (1,)),
        (("b", "a"), "a", (1,)),
        (("x", "y"), ("y", "output1"), (1, -2)),
    ],
)
def test_ac_12_saves_becomes_positions(operands: tuple[str, ...], saves: Any, positions: tuple[int, ...]) -> None:
    assert resolved(operands, saves=saves).saves == positions


def test_ac_12_short_names_are_those_of_one_or_two_operands() -> None:
    for operands, name in ((("x",), "b"), (("x", "y", "z"), "a")):
        with pytest.raises(ValueError, match=f"has no operand '{name}'"):
            resolved(operands, saves=name)


def test_with_setup_context_the_entry_says_itself_what_is_saved() -> None:
    assert resolved(("x",), setup_context=lambda *args: None).saves == ()


def test_saved_for_names_the_operand_whose_gradient_needs_a_value() -> None:
    assert resolved(("x", "y"), saved_for={"x": "y"}).gates == (1, None)


def test_ac_02_no_dtype_is_any() -> None:
    assert dtype_name(None) == dtype_name("*") == "*"
    assert dtype_name(np.float32) == dtype_name("float32") == "float32"
    with pytest.raises(ValueError, match="unknown dtype 'float7'; known: float16"):
        dtype_name("float7")


def test_ac_03_devices_are_known_by_kind() -> None:
    for device in ("cpu", "cuda", "*"):
        check_device(device)
    with pytest.raises(ValueError, match="unknown device 'abacus'; known: cpu, cuda"):
        check_device("abacus")


def test_a_given_kernel_called_as_any_other_returns_no_meta() -> None:
    assert UserKernel(lambda a: (a, "meta"), True)(3) == 3
    assert UserKernel(lambda a: a, False)(3) == 3


def test_saved_beside_names_the_operand_that_has_to_be_a_tensor() -> None:
    assert resolved(("x", "y"), saved_beside={"x": "y"}).gates == (-1, None)
