"""Ops about which element stands where."""

from __future__ import annotations

import raygrad as rg

from .agree import agree, values


def test_shapes_are_those_of_an_example():
    agree(lambda x: (x.reshape(4, 2), x.view(8), x.t(), x.flatten(), x.unsqueeze(0), x.mT), values(3, 2, 4))
    agree(lambda x: (x.permute(2, 0, 1), x.transpose(0, 2), x.squeeze(), x.squeeze(1)), values(3, 2, 1, 4))
    agree(lambda x: (x.expand(5, 2, 4), x.flip(0), x.roll(1, 1), x.roll(2)), values(3, 2, 4))
    agree(lambda x: (x.diagonal(1), x.tril(), x.triu(1), rg.diag(x)), values(3, 4, 4))
    agree(lambda x: (rg.diag(x), x.expand(2, 4), x.clone()), values(3, 4))


def test_a_view_of_examples_that_do_not_lie_in_front_is_made():
    agree(lambda x: x.view(8), values(2, 4, 3), in_dims=(2,))


def test_classes_become_vectors():
    agree(lambda x: rg.one_hot(x.long().abs(), 5), values(3, 4))
