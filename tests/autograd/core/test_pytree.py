"""Nested containers taken apart and put together (VM-16: pytrees in and out)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from raygrad.autograd.core.pytree import LEAF, broadcast_prefix, flatten, tree_map, unflatten


class Pair(NamedTuple):
    left: Any
    right: Any


def test_what_is_taken_apart_is_put_together_again():
    tree = {"a": [1, (2, None)], "b": Pair(3, OrderedDict(c=4)), "d": ()}
    leaves, structure = flatten(tree)
    assert leaves == [1, 2, None, 3, 4]
    assert structure.count == 5
    again = unflatten(structure, leaves)
    assert again == tree
    assert isinstance(again["b"], Pair)
    assert isinstance(again["b"].right, OrderedDict)


def test_what_is_no_container_is_a_leaf():
    assert flatten("text") == (["text"], LEAF)
    assert flatten(None) == ([None], LEAF)
    assert flatten({1, 2})[0] == [{1, 2}]


def test_structures_are_equal_where_the_same_leaves_fit():
    assert flatten([1, (2,)])[1] == flatten([3, (4,)])[1]
    assert flatten([1])[1] != flatten((1,))[1]
    assert flatten({"a": 1})[1] != flatten({"b": 1})[1]


def test_mapped_keeps_the_structure():
    assert tree_map(lambda n: n + 1, {"a": (1, [2])}) == {"a": (2, [3])}


def test_a_leaf_of_a_prefix_stands_for_all_below_it():
    _, structure = flatten((1, [2, 3], {"a": 4, "b": 5}))
    assert broadcast_prefix(0, structure) == [0] * 5
    assert broadcast_prefix((0, 1, {"b": 2, "a": None}), structure) == [0, 1, 1, None, 2]


def test_a_prefix_of_another_structure_does_not_fit():
    _, structure = flatten((1, [2, 3]))
    assert broadcast_prefix((0,), structure) is None
    assert broadcast_prefix([0, 1], structure) is None
    assert broadcast_prefix((0, (1, 2)), structure) is None
    assert broadcast_prefix((0, {"a": 1}), structure) is None
    assert broadcast_prefix((0, [1, [2]]), structure) is None


def test_a_structure_reads_as_its_containers():
    assert str(flatten((1, {"a": [2]}))[1]) == "tuple(*, dict('a': list(*)))"
