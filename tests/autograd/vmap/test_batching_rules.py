"""The registry of batching rules, and what rules share."""

from __future__ import annotations

import numpy as np

import raygrad as rg
from raygrad.autograd.registry.registry import get_op, list_ops
from raygrad.autograd.vmap.batching_rules import KEEPS_DIM, BatchedOpCall, all_batched, lifted, rules, spread


def test_a_rule_is_for_an_op_that_there_is():
    unknown = (set(rules) | KEEPS_DIM) - set(list_ops())
    assert not unknown


def test_examples_are_lifted_to_a_higher_rank_behind_their_own_dimension():
    assert lifted(rg.zeros(5, 3), 1, 3).shape == (5, 1, 1, 3)
    whole = rg.zeros(5, 3)
    assert lifted(whole, 1, 1) is whole


def test_what_is_the_same_for_all_is_spread_over_them():
    spreaded = spread(rg.tensor([1.0, 2.0]), 3)
    np.testing.assert_array_equal(spreaded.numpy(), [[1, 2]] * 3)
    given = BatchedOpCall(get_op("add"), (rg.zeros(3, 2), rg.ones(2), 4), (True, False, False), (1, 1, None), (), 3)
    first, second, number = all_batched(given)
    assert (first.shape, second.shape, number) == ((3, 2), (3, 2), 4)
