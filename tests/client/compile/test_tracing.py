"""What is seen of a function while it is recorded to be replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.compile.tracing import Trace, shares_memory
from raygrad.errors import SessionError


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_arrays_of_roots_are_pending_meanwhile_and_restored(session: Any) -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    x.grad = None
    array = x._data
    trace = Trace(session._recorder.inputs, [x], [])
    assert x._data is not array
    trace.restore()
    assert x._data is array


def test_axis_order_of_a_leaf_is_taken_before_its_array_is_hidden(session: Any) -> None:
    x = rg.from_numpy(np.asfortranarray(np.ones((2, 3)))).requires_grad_()
    trace = Trace(session._recorder.inputs, [x], [])
    assert x.axis_order() == (1, 0)
    trace.restore()


def test_gradient_of_a_root_is_found_by_way_of_it(session: Any) -> None:
    x = rg.tensor([1.0], requires_grad=True)
    x.grad = rg.tensor([3.0])
    trace = Trace(session._recorder.inputs, [x], [])
    root = trace.roots[id(x.grad)]
    other = rg.tensor([1.0], requires_grad=True)
    other.grad = rg.tensor([4.0])
    assert root.now([other]) is other.grad
    assert trace.roots[id(x)].is_alike(other)
    other.grad = None
    assert not trace.roots[id(x)].is_alike(other)
    trace.restore()


def test_constants_of_the_functions_own_may_be_read_and_roots_not(session: Any) -> None:
    x = rg.tensor([1.0])
    own = session._recorder.leaf(rg.tensor([2.0]))
    trace = Trace(session._recorder.inputs, [x], [])
    trace.refuse_read(own)
    with pytest.raises(SessionError, match=r"a value is read inside session\.compile"):
        trace.refuse_read(x._data)
    trace.restore()


def test_views_and_aliases_share_memory_while_they_live(session: Any) -> None:
    x = rg.tensor([1.0, 2.0])
    assert not shares_memory(x)
    view = x[:1]
    assert shares_memory(x)
    assert shares_memory(view)
    del view
    alias = x.detach()
    assert shares_memory(x)
    del alias
    assert not shares_memory(x)


def test_what_was_detached_from_what_is_gone_shares_no_memory() -> None:
    base = rg.tensor([1.0, 2.0])
    x = base.detach()
    assert shares_memory(x)
    del base
    assert not shares_memory(x)
    x.data = rg.tensor([3.0, 4.0])
    assert not shares_memory(x)
    x.add_(1.0)
    assert x.tolist() == [4.0, 5.0]


def test_forgetting_lets_go_of_values(session: Any) -> None:
    x = rg.tensor([1.0])
    trace = Trace(session._recorder.inputs, [x], [])
    trace.restore()
    trace.forget()
    assert not trace.kept
    assert not trace.origins
    assert all(root.initial is None for root in trace.roots.values())
