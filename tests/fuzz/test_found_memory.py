"""Programs, made small, in which tensors of one memory once differed from torch's; as in `test_found`."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from .checking import check_eagerly, check_in_session
from .programs import Leaf, Program

pytestmark = pytest.mark.oracle

TWO = Leaf((2, 3), "float64", True, 42)
PLAIN = Leaf((2, 3), "float64", False, 42)
NUMBER = Leaf((), "float64", False, 19)

FOUND: dict[str, Program] = {
    # ---- arguments of a Function that changes one ----
    "a_function_sees_its_change_by_the_name_of_a_view": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("view", "detach", 1, ()),
            ("getitem", 2, (0,)),
            ("apply", "change_", (1, 2)),
            ("backward", (1, 4), {}),
        ),
    ),
    "a_function_changes_a_number_of_which_it_has_a_view": Program(
        (NUMBER,), (("getitem", 0, ("...",)), ("apply", "change_", (1, 0)))
    ),
    "a_function_overwrites_what_has_no_elements_by_a_part_of_it": Program(
        (Leaf((0, 3), "float64", False, 0),),
        (("getitem", 0, (("slice", None, -1, None),)), ("apply", "overwrite_", (1, 0))),
    ),
    "what_a_function_saves_of_a_detached_alias_of_what_it_changes_is_fresh": Program(
        (TWO,),
        (
            ("binary", "mul", 0, ("number", 2.0)),
            ("view", "detach", 1, ()),
            ("apply", "change_", (2, 1)),
            ("backward", (3,), {}),
        ),
    ),
}
"""By what is now so."""


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch")
    module.set_num_threads(1)
    return module


@pytest.mark.parametrize("name", FOUND)
def test_found_program_agrees_eagerly(torch: Any, name: str) -> None:
    assert check_eagerly(FOUND[name], torch, rg) is None


@pytest.mark.parametrize("name", FOUND)
def test_found_program_agrees_in_a_session(torch: Any, name: str) -> None:
    assert check_in_session(FOUND[name], torch, rg) is None
