"""Views whose place in the graph is gone: what can be asked of them, and what raises."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

import pytest

MESSAGE = "its base or another view of its base has been modified inplace"


def stale(T, requires_grad=True):
    """A view that a Function returned, whose base was changed since."""

    class Tail(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[1:]

        @staticmethod
        def backward(ctx, g):
            return T.cat([g[:1] * 0, g])

    base = T.tensor([1.0, 2.0, 3.0], dtype=T.float64, requires_grad=requires_grad) * 1
    view = Tail.apply(base)
    base.mul_(2)
    return base, view


@pytest.mark.parametrize("name", ["grad_fn", "is_leaf"])
def test_its_node_raises(T, name):
    _, view = stale(T)
    with pytest.raises(RuntimeError, match=MESSAGE):
        getattr(view, name)


def test_all_else_can_be_asked(T):
    base, view = stale(T)
    assert (view.requires_grad, view.output_nr, view.retains_grad, view._version) == (True, 0, False, 1)
    with pytest.warns(UserWarning, match="grad"):
        assert view.grad is None
    assert view._base is base
    assert view.detach().tolist() == [4.0, 6.0]
    assert view.requires_grad_() is view
    assert "grad_fn=<Invalid>" in repr(view)
    assert (type(view).__name__, type(view).__module__) == (type(base).__name__, type(base).__module__)
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        view.requires_grad = False


def test_without_gradient_it_has_no_node(T):
    _, view = stale(T, requires_grad=False)
    assert view.grad_fn is None
    assert view.is_leaf
    view.mul_(2)
    assert view.tolist() == [8.0, 12.0]
