"""Adamax: its options, against torch over several steps, and in a session equal to the last bit."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from .training import (
    check_against_torch,
    check_bits_of_a_session,
    check_single_precision_stays,
    check_state_is_taken_over,
)

OPTIONS: list[dict[str, Any]] = [
    {},
    {"lr": 0.05, "betas": (0.8, 0.9)},
    {"lr": 0.05, "weight_decay": 0.1, "eps": 1e-3, "maximize": True},
]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -0.1}, "Invalid learning rate: -0.1"),
        ({"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
        ({"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rg.optim.Adamax([rg.zeros(2, requires_grad=True)], **options)


def test_complex_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="Adamax moves real parameters"):
        rg.optim.Adamax([rg.zeros(2, dtype=rg.complex128, requires_grad=True)])


def test_a_float32_parameter_stays_float32() -> None:
    check_single_precision_stays("Adamax")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("strict", [False, True], ids=["by reference", "strict"])
def test_a_session_gives_the_same_bits(options: dict[str, Any], strict: bool) -> None:
    check_bits_of_a_session("Adamax", options, strict)


def test_the_state_is_taken_over() -> None:
    check_state_is_taken_over("Adamax", OPTIONS[-1])


@pytest.mark.oracle
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_agree_with_torch(options: dict[str, Any]) -> None:
    check_against_torch("Adamax", options)
