"""Objects with tensors in them, taken apart at the client and opened beside the arguments of a Function."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.nodes.captured_leaves import LEAF
from raygrad.errors import NotShippable
from raygrad.workers.code.nested_tensors import (
    Embedding,
    GroupedArgument,
    extract_tensors,
    holds_tensors,
    nested_tensors_of,
    opened,
)


class Layer:
    def __init__(self, weight: Any) -> None:
        self.weight = weight
        self.name = "first"


def leaf() -> Any:
    return rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)


@pytest.mark.parametrize("wrap", [list, tuple, set], ids=["list", "tuple", "set"])
def test_tensors_are_found_in_containers(wrap: Any) -> None:
    assert holds_tensors(wrap([1, leaf()]))
    assert not holds_tensors(wrap([1, 2.5, "x"]))


def test_tensors_are_found_in_attributes_and_in_what_functions_capture() -> None:
    w = leaf()
    assert holds_tensors({"layers": [Layer(w)]})
    assert holds_tensors(lambda x: x * w)
    assert holds_tensors(Layer(w).__init__)  # whose `self` has one
    assert not holds_tensors(Layer(None))
    assert not holds_tensors((np.sum, np.ones(3), np.float64))


def test_a_tensor_that_is_an_argument_is_that_argument() -> None:
    w, other = leaf(), leaf()
    data, tensors = extract_tensors({"same": Layer(w), "again": [w, other]})
    assert [tensor is one for tensor, one in zip(tensors, (w, other), strict=True)] == [True, True]
    given = rg.tensor([1.0, 2.0], dtype=rg.float64)
    embedding, other = [pickle.loads(pickle.dumps(Embedding(data, ((1, 2), (-1, 2))))) for _ in range(2)]
    assert embedding.own == 1
    tensors = nested_tensors_of([embedding, other], [0, 1], [np.ones(2), np.zeros(2)])
    args, named, inside = opened((None, given, embedding), {"copy": other, "same": embedding}, tensors)
    assert named["same"] is args[2]
    assert args[2]["same"].weight is given
    assert args[2]["again"][0] is given
    assert args[2]["again"][1].tolist() == [1.0, 1.0]
    assert args[2]["again"][1].requires_grad
    assert named["copy"]["again"][1].tolist() == [0.0, 0.0]
    assert inside == {1}


def test_one_value_is_one_tensor_wherever_it_is_held() -> None:
    data, _ = extract_tensors([leaf()])
    one, other = [Embedding(data, ((-1, 2),)) for _ in range(2)]
    assert one.kinds == [LEAF]
    tensors = nested_tensors_of([one, other], [3, 3], [None, None, None, np.ones(2)])
    assert tensors[0] is tensors[1]
    (first, second), _, _ = opened((one, other), {}, tensors)
    assert first[0] is second[0]


def test_values_that_do_not_fit_are_refused() -> None:
    data, _ = extract_tensors([leaf()])
    with pytest.raises(NotShippable, match="2 tensors came for objects that hold 1"):
        opened((Embedding(data, ((-1, 2),)),), {}, [leaf(), leaf()])


def test_arguments_that_were_pickled_together_hold_one_object() -> None:
    held = [1]
    data, _ = extract_tensors((held, {"held": held}, [held]))
    box = pickle.loads(pickle.dumps(Embedding(data, (), of_several=True)))
    args, named, _ = opened((box, GroupedArgument(2)), {"one": GroupedArgument(1)}, [])
    assert args == (held, [held])
    assert args[1][0] is args[0]
    assert named["one"]["held"] is args[0]
