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
    # ---- exchanged data, and changes through `.data` ----
    "a_node_tells_a_returned_input_from_the_input_itself": Program(
        (TWO,),
        (
            ("apply", "passing", (0,)),
            ("binary", "mul", 1, 0),
            ("view", "detach", 0, ()),
            ("binary", "mul", 3, 3),
            ("data", 1, 4),
            ("backward", (2,), {}),
        ),
    ),
    "a_view_stays_stale_after_a_change_through_data": Program(
        (TWO,),
        (
            ("binary", "mul", 0, 0),
            ("no_grad", (("getitem", 1, (0, 0)),)),
            ("inplace", "zero_", 1, ()),
            ("view", "data", 1, ()),
            ("inplace", "mul_", 3, (2.0,)),
            ("binary", "mul", 2, 0),
        ),
    ),
    "what_has_other_data_tells_views_of_what_it_was": Program(
        (TWO, PLAIN),
        (
            ("apply", "sliced", (0,)),
            ("no_grad", (("apply", "passing", (0,)),)),
            ("data", 3, 1),
            ("inplace", "add_", 3, (2.0,)),
            ("backward", (2,), {}),
        ),
    ),
    "a_view_that_is_a_leaf_by_itself_is_not_stale": Program(
        (PLAIN,),
        (
            ("binary", "mul", 0, 0),
            ("set_grad_enabled", False),
            ("view", "unsqueeze", 1, (0,)),
            ("requires_grad_", 2, True),
            ("inplace", "mul_", 2, (2.0,)),
            ("backward", (2,), {}),
        ),
    ),
    # ---- errors ----
    "that_there_is_no_such_region_is_said_first": Program(
        (TWO,), (("getitem", 0, (0,)), ("setitem", 1, (0, 0), ("number", 2.0)))
    ),
    "a_part_begins_inside": Program((Leaf((0, 3), "float64", False, 0),), (("view", "narrow", 0, (0, 1, 0)),)),
    "what_has_no_elements_has_any_softmax": Program((Leaf((0,), "int64", False, 0),), (("along", "softmax", 0, -1),)),
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
