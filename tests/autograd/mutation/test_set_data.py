"""`x.data = y`: whose memory it is then, and what nodes that saved the tensor compute with (CX-14)."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.mutation import set_data


def vector(T, *values, requires_grad=False):
    return T.tensor(values, dtype=T.float64, requires_grad=requires_grad)


def test_the_version_and_the_history_stay(T):
    x = vector(T, 1.0, 2.0, requires_grad=True)
    y = x * 3
    before = y._version
    y.data = vector(T, 5.0, 7.0)
    assert (y._version, y.requires_grad, y.is_leaf) == (before, True, False)
    (y * y).sum().backward()
    assert x.grad.tolist() == [30.0, 42.0]


def test_the_newest_of_several_counts(T):
    x = vector(T, 1.0, 2.0, requires_grad=True)
    first, second = x * x, None
    x.data = vector(T, 3.0, 4.0)
    second = x * x
    x.data = vector(T, 5.0, 6.0)
    (first + second).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [20.0, 24.0]
    x.data = vector(T, 1.0, 1.0)
    x.grad = None
    (first + second).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_a_change_after_an_exchange_is_found(T):
    x = vector(T, 1.0, 2.0, requires_grad=True)
    y = x * 1
    z = y * y
    y.data = vector(T, 3.0, 4.0)
    with T.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_an_output_is_saved_by_its_memory(T):
    x = vector(T, 1.0, 2.0, requires_grad=True)
    y = x.exp()
    y.data = vector(T, 0.0, 0.0)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx(np.exp([1.0, 2.0]).tolist())


@pytest.mark.parametrize("value", [3.0, None])
def test_only_a_tensor_is_data(T, value):
    with pytest.raises(TypeError, match="Variable data has to be a tensor"):
        vector(T, 1.0).data = value


def test_data_must_be_differentiable_where_gradient_flows(T):
    x = vector(T, 1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="floating point or complex dtype"):
        x.data = T.tensor([1])


def test_what_was_held_is_let_go():
    x = vector(rg, 1.0, requires_grad=True)
    held = []
    y = x * x
    for _ in range(5):
        value = vector(rg, 2.0)
        held.append(weakref.ref(value._data))
        x.data = value
        del value
        assert len(set_data.held_by(x)) == 1
    gc.collect()
    assert [one() is None for one in held] == [True] * 4 + [False]
    y.sum().backward()
    assert x.grad.tolist() == [4.0]


def in_session(run):
    with rg.Session():
        return [value.tolist() for value in run()]


def test_in_a_session_the_views_keep_the_old_memory():
    def run():
        x, y = vector(rg, 1.0, 2.0), vector(rg, 5.0, 6.0)
        first, alias = x[:1], x.detach()
        x.data = y.data
        first.mul_(10)  # of what x was
        x.mul_(2)
        y.add_(1)
        return x, y, first, alias

    assert in_session(run) == [value.tolist() for value in run()] == [[11.0, 13.0], [11.0, 13.0], [10.0], [10.0, 2.0]]


def test_in_a_session_a_view_leaves_its_base():
    def run():
        x, y = vector(rg, 1.0, 2.0, 3.0), vector(rg, 5.0, 6.0)
        view = x[1:]
        below = view[:1]
        view.data = y
        view.mul_(2)
        x.neg_()
        return x, y, view, below

    expected = [[-1.0, -2.0, -3.0], [10.0, 12.0], [10.0, 12.0], [-2.0]]
    assert in_session(run) == [value.tolist() for value in run()] == expected


def test_in_a_session_data_can_be_its_own():
    def run():
        x = vector(rg, 1.0, 2.0)
        part = x[:1]
        x.data = x.data
        x.add_(1)
        return x, part

    assert in_session(run) == [value.tolist() for value in run()] == [[2.0, 3.0], [2.0]]


def test_in_a_session_writes_by_another_name_are_seen_by_nodes():
    def run():
        x = vector(rg, 1.0, 2.0, requires_grad=True)
        y = x * x
        x.data.mul_(3)
        y.sum().backward()
        return x.detach(), x.grad

    assert in_session(run) == [value.tolist() for value in run()] == [[3.0, 6.0], [6.0, 12.0]]


def test_in_a_session_a_returned_view_of_other_memory_is_not_stale():
    class Same(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    def run():
        x, y = vector(rg, 1.0, 2.0, requires_grad=True), vector(rg, 5.0, 6.0)
        z = Same.apply(x)
        z.data = y
        y.mul_(2)
        (z * 3).sum().backward()
        return z.detach(), x.grad

    assert in_session(run) == [value.tolist() for value in run()] == [[10.0, 12.0], [3.0, 3.0]]


def test_what_was_converted_for_an_op_is_changed_through_data_in_a_session():
    with rg.Session():
        x = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
        y = rg.tensor([3.0, 4.0], dtype=rg.float32)
        z = x * y
        y.data.fill_(5.0)
        z.sum().backward()
        assert x.grad.tolist() == [5.0, 5.0]
