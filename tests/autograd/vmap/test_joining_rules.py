"""Joining tensors of which some are the same for all examples."""

from __future__ import annotations

import raygrad as rg

from .agree import agree, values


def test_what_is_the_same_for_all_is_joined_to_each():
    agree(lambda x, y: (rg.cat([x, y, x]), rg.stack([x, y], 1)), values(3, 2), values(2), in_dims=(0, None))
    agree(lambda x, y: rg.cat([x, y], 1), values(3, 2, 4), values(2, 3, 1), in_dims=(0, 1))


def test_empty_vectors_count_nothing():
    agree(lambda x: rg.cat([x[0][:0], x]), values(3, 2, 4))
    agree(lambda x: rg.cat([rg.zeros(0, dtype=rg.float64), x]), values(3, 2))
