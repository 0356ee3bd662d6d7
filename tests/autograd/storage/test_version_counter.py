"""Counters of changes in place (CX-13, CX-14)."""

# pyright: reportArgumentType=false

from __future__ import annotations

import gc
import weakref

import raygrad as rg
from raygrad.autograd.storage.version_counter import (
    CLOCK,
    bump,
    new_counter,
    note_detached,
    was_changed,
    was_detached,
)


def test_a_counter_knows_when_it_last_moved():
    first, second = new_counter(), new_counter()
    bump(first)
    then = CLOCK[0]
    bump(second)
    bump(second)
    assert (first[0], second[0]) == (1, 2)
    assert first[1] == then < second[1]


def test_the_clock_moves_with_each_change_in_place_alone():
    x = rg.ones(3)
    before = CLOCK[0]
    _ = x * 2
    assert CLOCK[0] == before
    x.add_(1)
    x[0] = 2
    assert CLOCK[0] == before + 2


def test_a_change_ends_the_node_of_a_view_until_it_is_read_again():
    x = rg.ones(3, requires_grad=True) * 2
    view = x[1:]
    node = view.grad_fn
    bump(x.counter())
    assert view._grad_fn is None
    renewed = view.grad_fn
    assert renewed is not node
    assert view.grad_fn is renewed
    bump(x.counter())
    assert view.grad_fn is not renewed


def test_a_counter_knows_the_storages_with_views_that_have_a_history():
    x = rg.ones(3, requires_grad=True) * 2
    views = [x[1:], x[:1], x.detach()]
    assert x.counter()[2:] == [x._storage]
    assert all(view._storage is x._storage for view in views)
    y = rg.ones(3)
    _ = y[1:]
    assert len(y.counter()) == 2


def test_a_detached_version_is_the_same_number_and_unlike_what_was_noted():
    counter = new_counter()
    bump(counter)
    before = counter[0]
    made = rg.ones(2, requires_grad=True) * 2
    note_detached(counter, made.grad_fn, 0)
    assert counter[0] != before
    assert not was_changed(counter, before)
    assert was_detached(counter, made.grad_fn, 0)
    assert not was_detached(counter, made.grad_fn, 1)
    assert not was_detached(counter, None, 0)
    noted = counter[0]
    assert noted == counter[0]
    other = rg.ones(2, requires_grad=True) * 2
    note_detached(counter, other.grad_fn, 0)
    assert counter[0] != noted
    assert was_detached(counter, made.grad_fn, 0)
    bump(counter)
    assert counter[0] == 2
    assert was_changed(counter, noted)
    assert not was_detached(counter, made.grad_fn, 0)


def test_a_detached_version_keeps_no_graph_alive():
    x = rg.ones(2, requires_grad=True)
    y = x * 2
    product = y * y
    node = weakref.ref(y.grad_fn)
    y.detach_()
    del product
    gc.collect()
    assert node() is None
    assert y._version == 0
    assert type(y._version) is int


def test_a_leaf_that_was_made_to_require_grad_stays_known_when_an_alias_gets_other_data(T):
    x, w = T.ones(2), T.full((2,), 3.0, requires_grad=True)
    alias = x.detach()
    product = w * x
    x.requires_grad_()
    alias.data = T.zeros(2)
    (g,) = T.autograd.grad(product.sum(), w, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [1, 1]
