"""All optimisers by one table: against torch over several steps, and in a session equal to the last bit."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import pytest

import raygrad as rg

from .rules import RULES
from .training import (
    check_against_torch,
    check_bits_of_a_session,
    check_single_precision_stays,
    check_state_is_taken_over,
)

OPTIONS = [(name, options) for name, rule in RULES.items() for options in rule.options]
REFUSED = [(name, options, message) for name, rule in RULES.items() for options, message in rule.refused]


def test_each_optimizer_is_in_the_table():
    own = {"LBFGS"}  # which has no step without a closure
    assert {*RULES, *own, "Optimizer", "lr_scheduler"} == set(rg.optim.__all__)


@pytest.mark.parametrize(("name", "options", "message"), REFUSED, ids=str)
def test_bad_options_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(rg.optim, name)([rg.zeros(2, requires_grad=True)], **options)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if not rule.complex_too])
def test_complex_parameters_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} moves real parameters"):
        getattr(rg.optim, name)([rg.zeros(2, dtype=rg.complex128, requires_grad=True)])


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_a_float32_parameter_stays_float32(name: str, options: dict[str, Any]) -> None:
    check_single_precision_stays(name, options)


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
@pytest.mark.parametrize("strict", [False, True], ids=["by reference", "strict"])
def test_a_session_gives_the_same_bits(name: str, options: dict[str, Any], strict: bool) -> None:
    check_bits_of_a_session(name, options, strict)


@pytest.mark.parametrize("name", RULES)
def test_the_state_is_taken_over(name: str) -> None:
    check_state_is_taken_over(name, RULES[name].options[-1])


@contextlib.contextmanager
def momenta_in_double(name: str, torch: Any) -> Generator[None]:
    """Let torch keep the product of NAdam's momenta in double precision, as raygrad does for such a parameter."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if name == "NAdam" else before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_steps_agree_with_torch(name: str, options: dict[str, Any]) -> None:
    with momenta_in_double(name, pytest.importorskip("torch")):
        check_against_torch(name, options)
