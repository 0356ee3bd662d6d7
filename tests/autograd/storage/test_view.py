"""Views that require grad since their base does, and have no place in the graph."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

import pytest

import raygrad as rg

FORBIDDEN = "created in no_grad mode"


def leaf(T):
    return T.tensor([1.0, 2.0, 3.0], dtype=T.float64, requires_grad=True)


def unrecorded(T, base):
    """A view that was made with recording off."""
    with T.no_grad():
        return base[:2]


@pytest.mark.parametrize("of_leaf", [True, False])
def test_it_requires_grad_and_gets_none(T, of_leaf):
    x = leaf(T)
    view = unrecorded(T, x if of_leaf else x * 2)
    assert (view.requires_grad, view.is_leaf, view.grad_fn, view.output_nr) == (True, True, None, 0)
    result = view * 3
    assert result.requires_grad
    assert result.grad_fn.next_functions[0] == (None, 0)
    result.sum().backward()
    assert view.grad is None
    assert x.grad is None
    with pytest.raises(RuntimeError, match="not have been used"):
        T.autograd.grad((view * 3).sum(), [view])
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        view.sum().detach().backward()
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        view.backward(T.ones(2, dtype=T.float64))


def test_of_a_constant_it_requires_none(T):
    view = unrecorded(T, T.ones(3))
    assert not view.requires_grad
    view.mul_(2)
    assert view.tolist() == [2, 2]


def test_a_view_of_it_is_in_the_graph(T):
    view = unrecorded(T, leaf(T) * 2)
    part = view[:1]
    assert (part.requires_grad, part.is_leaf) == (True, False)
    with pytest.raises(RuntimeError, match=FORBIDDEN):
        part.mul_(2)


def test_it_cannot_be_changed_with_recording_on(T):
    x = leaf(T)
    for base in (x, x * 2):
        view = unrecorded(T, base)
        with pytest.raises(RuntimeError, match=FORBIDDEN):
            view.mul_(2)
    constant = T.ones(3, dtype=T.float64)
    view = unrecorded(T, constant)
    with pytest.raises(RuntimeError, match=FORBIDDEN):
        view.mul_(x[:2])
    assert not constant.requires_grad


def test_what_was_changed_with_recording_off_has_no_place_in_the_graph(T):
    x = leaf(T)
    view = unrecorded(T, x)
    with T.no_grad():
        view.mul_(2)
        assert (view + 1).tolist() == [3, 5]
    assert x.tolist() == [2, 4, 3]
    assert view.requires_grad
    with pytest.raises(RuntimeError, match=FORBIDDEN):
        view * 2
    with pytest.raises(RuntimeError, match=FORBIDDEN):
        _ = view.grad_fn


@pytest.mark.parametrize("of_constant", [True, False])
def test_a_recorded_change_of_its_base_ends_it(T, of_constant):
    x = leaf(T)
    base = T.ones(3, dtype=T.float64) if of_constant else x * 2
    view = unrecorded(T, base)
    base.mul_(x)
    assert view.requires_grad
    with pytest.raises(RuntimeError, match=FORBIDDEN):
        view * 2
    with pytest.raises(RuntimeError, match=FORBIDDEN):
        _ = view.is_leaf


def test_it_requires_grad_as_long_as_its_base_does(T):
    base = T.ones(3, dtype=T.float64)
    view = base[:2]
    assert not view.requires_grad
    base.requires_grad_()
    assert view.requires_grad
    view.requires_grad_(False)
    assert view.requires_grad
    base.requires_grad_(False)
    assert not view.requires_grad
    base = leaf(T) * 2
    view = unrecorded(T, base)
    base.detach_()
    assert not view.requires_grad
    view.mul_(2)
    assert base.tolist() == [4, 8, 6]


def test_a_recorded_view_enters_the_graph_when_its_memory_is_changed(T):
    base = T.ones(3, dtype=T.float64)
    view = base[:2]
    base.requires_grad_()
    (view * 2).sum().backward()
    assert base.grad is None
    with T.no_grad():
        base.mul_(3)
    assert not view.is_leaf
    (view * 2).sum().backward()
    assert base.grad.tolist() == [2, 2, 0]


def test_a_change_before_its_base_required_grad_counts(T):
    base = T.ones(3, dtype=T.float64)
    view, hidden = base[:2], unrecorded(T, base)
    base.mul_(3)
    base.requires_grad_()
    assert not view.is_leaf
    with pytest.raises(RuntimeError, match=FORBIDDEN):
        _ = hidden.is_leaf


def test_it_can_be_a_leaf_of_its_own(T):
    view = unrecorded(T, leaf(T))
    view.requires_grad_()
    (view * 2).sum().backward()
    assert view.grad.tolist() == [2, 2]


def test_it_is_a_plain_tensor_to_users():
    view = unrecorded(rg, leaf(rg))
    assert (type(view).__name__, type(view).__module__) == (rg.Tensor.__name__, rg.Tensor.__module__)


def test_what_a_function_returns_of_it_is_not_what_it_captured(T):
    class Tail(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            assert x[1:].requires_grad
            return x[1:]

        @staticmethod
        def backward(ctx, g):
            return T.cat([g[:1] * 0, g])

    x = leaf(T)
    Tail.apply(x * 2).sum().backward()
    assert x.grad.tolist() == [0, 2, 2]
    with T.no_grad():
        view = Tail.apply(x)
    assert (view.requires_grad, view.is_leaf) == (True, True)


def test_a_view_of_an_argument_that_forward_saved_is_a_saved_intermediate():
    class Head(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x[:1])
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (first,) = ctx.saved_tensors
            return g * first

    x = leaf(rg)
    (g,) = rg.autograd.grad(Head.apply(x).sum(), [x], create_graph=True)
    with pytest.raises(RuntimeError):
        g.sum().backward()


def test_a_gradient_is_a_tensor_of_its_own():
    x = leaf(rg)
    (g,) = rg.autograd.grad((x * x).view(3, 1).sum(), [x], create_graph=True)
    assert g._base is None
    y = x.view(3, 1)
    given = rg.ones(3, 1, dtype=rg.float64, requires_grad=True)
    (g,) = rg.autograd.grad([y], [x], [given], create_graph=True)
    assert g._base is None
    g.mul_(2)
    assert given.tolist() == [[1], [1], [1]]
    g.sum().backward()
    assert given.grad.tolist() == [[2], [2], [2]]
