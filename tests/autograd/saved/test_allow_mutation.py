"""In-place changes of what a graph has saved (GR-13)."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import raygrad as rg


def vector(T: Any, *values) -> Any:
    return T.tensor(list(values), dtype=T.float64, requires_grad=True)


def test_gr_13_a_view_is_changed_and_its_base_was_saved():
    x = vector(rg, 1, 2, 3)  # torch 2.13 does not see a change through a view
    with rg.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = y * y
        y[1:].mul_(10)
        w = y * y
        (z + w).sum().backward()
    assert x.grad.tolist() == [4, 4 + 400, 6 + 600]


def test_gr_13_it_cannot_be_nested(T: Any):
    allow = T.autograd.graph.allow_mutation_on_saved_tensors
    with allow():
        with pytest.raises(RuntimeError, match="cannot be nested"):
            with allow():
                pass
    with allow():
        pass


def test_gr_13_only_one_clone_is_made_and_it_dies_with_the_graph():
    x = vector(rg, 1, 2)
    gc.disable()
    try:
        with rg.autograd.graph.allow_mutation_on_saved_tensors():
            y = x * 1
            z: Any = y.exp() * y
            before = z.grad_fn._saved_other._data
            y.add_(1)
            clone = z.grad_fn._saved_other._data
            assert clone is not before
            y.add_(1)
            assert z.grad_fn._saved_other._data is clone
            alive = weakref.ref(clone)
            del clone, before, z
            assert alive() is None
    finally:
        gc.enable()


def test_gr_13_without_it_the_change_is_refused(T: Any):
    x = vector(T, 1)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
