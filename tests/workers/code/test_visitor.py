from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from raygrad.workers.code.visitor import Part, Visitor, function_parts, label, named_parts, parts, reachable

from .shapes import SHAPES


class Leaf:
    """What is looked for."""


def test_the_content_of_each_shape_is_reached_once_and_by_a_part_that_holds_it():
    for name, make in SHAPES.items():
        if name == "code_object":
            continue
        leaf = Leaf()
        found = list(reachable(make(leaf).code, lambda value: True))
        assert sum(value is leaf for value in found) == 1, name
        assert len(set(map(id, found))) == len(found)
        holds = [one for value in found for one in parts(value) if one[3] is leaf]
        assert {role for role, _, _, _ in holds} <= {
            *("cell", "default", "keyword default", "attribute", "global", "argument", "keyword", "key", "value"),
            *("item", "slot", "member", "through module"),
        }


def test_parts_of_a_function_have_an_order_and_names():
    variable = 1

    def code(a: Any = 2, *, b: Any = 3) -> Any:
        return a, b, variable, Leaf

    code.note = 4  # type: ignore[attr-defined]
    found = function_parts(code)
    assert [part[:2] for part in found] == [
        *(("default", "a"), ("keyword default", "b"), ("cell", "variable"), ("attribute", "note"), ("global", "Leaf")),
    ]
    assert [label(part) for part in found] == [
        *("default of 'a'", "default of 'b'", "'variable'", "'function.note'", "'Leaf'"),
    ]
    assert [name for name, _ in named_parts(code)][:2] == ["'variable'", "'function.note'"]
    assert [part[0] for part in function_parts(code, of_library=True)] == ["default", "keyword default", "cell"]


def test_more_defaults_than_arguments_are_all_parts():
    def code(a: Any = 0) -> Any:
        return a

    code.__defaults__ = (1, 2, 3)
    assert [part[3] for part in function_parts(code)] == [1, 2, 3]


def test_a_search_ends_at_its_depth_where_it_is_told_to_and_at_parts_that_are_left_out():
    leaf = Leaf()
    nested: Any = leaf
    for _ in range(4):
        nested = [nested]
    assert leaf in list(reachable(nested, lambda value: True, depth=5))
    assert leaf not in list(reachable(nested, lambda value: True, depth=4))
    assert list(reachable([leaf], lambda value: value is not leaf)) == [[leaf]]
    assert Leaf in list(reachable(leaf, lambda value: True))
    assert Leaf not in list(reachable(leaf, lambda value: True, omit="class"))


def test_the_function_of_a_partial_is_no_step_of_its_own():
    leaf = Leaf()
    code = functools.partial(lambda: leaf)
    assert leaf in list(reachable(code, lambda value: True, depth=2))


def test_a_walk_is_depth_first_in_the_order_of_the_parts():
    class Order(Visitor):
        looks = {}  # noqa: RUF012
        atoms = frozenset({int})

        def __init__(self) -> None:
            self.seen: list[Any] = []

        def other(self, value: Any) -> Sequence[Part]:
            self.seen.append(value)
            return parts(value)

    walk = Order()
    walk.walk([[["a"], 1, "b"], "c"])
    assert walk.seen == [[["a"], 1, "b"], ["a"], "a", "b", "c"]
