"""Arguments of one memory in a session: what is recorded of them, and what a node keeps (DR-03)."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import contextlib

import pytest

import raygrad as rg
from raygrad.client.functions.aliased_arguments import find_aliased, may_change


class AddInto(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        return x.add_(y), y * y

    @staticmethod
    def backward(ctx, g, h):
        (y,) = ctx.saved_tensors
        return g, g + 2 * y * h


class Adds(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        return g, g


def _mark(ctx, x):
    ctx.mark_dirty(x)


class Hidden(AddInto):
    @staticmethod
    def forward(ctx, x, y):
        _mark(ctx, x)
        return x.add_(y), y * y


def vector():
    return rg.tensor([1.0, 2.0, 3.0], dtype=rg.float64)


def test_only_different_tensors_of_one_memory_are_shared():
    with rg.Session():
        x = vector() * 1
        assert find_aliased((x, x)) is None
        assert find_aliased((x, x.clone(), 3.0)) is None
        found = find_aliased((x.clone(), x[1:], 3.0, x, x[1:], x.detach()))
        assert sorted(found.owners) == [1, 3, 4, 5]
        assert found.owners[1] is x
        assert [one and (one[0][2], one[1], one[2]) for one in found.where] == [
            (),
            (1, (2,), 1),
            (),
            (0, (3,), 3),
            (1, (2,), 4),
            (0, (3,), 5),
        ]


class Twice(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, part):
        ctx.mark_dirty(x)
        return x.mul_(2.0 if y is x else 3.0), part * 1.0


def test_a_tensor_given_twice_beside_a_view_of_it_is_one_object():
    results = []
    for session in (contextlib.nullcontext(), rg.Session()):
        with session:
            x = vector() * 1
            changed, part = Twice.apply(x, x, x[1:])
            results.append((changed.tolist(), part.tolist(), x.tolist()))
    assert results == [([2.0, 4.0, 6.0], [4.0, 6.0], [2.0, 4.0, 6.0])] * 2


def test_a_copy_that_reshape_made_is_not_of_the_memory():
    with rg.Session():
        x = vector().reshape(3, 1) @ vector().reshape(1, 3)
        assert find_aliased((x, x.reshape(9))) is not None
        assert find_aliased((x, x.t().reshape(9))) is None


def test_a_function_may_change_its_arguments_as_its_code_or_its_runs_say():
    with rg.Session() as session:
        assert may_change(AddInto, None)
        assert not may_change(Adds, None)
        assert not may_change(Hidden, None)
        x = vector() * 1
        AddInto.apply(x, vector())
        Adds.apply(x, x[:])
        known = list(session._observed.signatures.values())
        assert [may_change(AddInto, one) for one in known] == [True, False]


@pytest.mark.parametrize("saved", ["store", "worker", "recompute"])
def test_what_was_saved_is_what_forward_left(saved):
    for session in (None, rg.Session(saved=saved)):
        w = vector().requires_grad_()
        if session is not None:
            session.__enter__()
        x = w * 1
        a, b = AddInto.apply(x, x.detach())
        (a.sum() + b.sum()).backward()
        assert w.grad.tolist() == [1.0, 1.0, 1.0]
        assert b.detach().tolist() == [4.0, 16.0, 36.0]
        if session is not None:
            session.__exit__(None, None, None)


def test_a_function_that_changes_nothing_is_known_for_all_arguments_at_once():
    class May(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, change):
            if change:
                ctx.mark_dirty(x)
                return x.add_(y)
            return x + y

    with rg.Session() as session:
        x = vector() * 1
        for _ in range(3):
            assert May.apply(x, x[:], False).tolist() == [2.0, 4.0, 6.0]
        assert session._observed.first_runs["May"][0] == 1
        assert len({id(one) for one in session._observed.signatures.values()}) == 1
        y = x[:]
        assert May.apply(x, y, True) is x
        assert y.tolist() == [2.0, 4.0, 6.0]


def test_a_change_that_the_code_does_not_show_is_refused_for_one_memory():
    with rg.Session():
        x = vector() * 1
        with pytest.raises(RuntimeError, match=r"Hidden was given arguments of one memory, .* clone one"):
            Hidden.apply(x, x[:])
        Hidden.apply(x, vector())
        y = x[:]
        Hidden.apply(x, y)  # known by now
        assert y.tolist() == x.tolist()


def test_a_compiled_function_changes_arguments_of_one_memory():
    def step(x):
        y = x * 1
        a, b = AddInto.apply(y, y[:])
        return a, b

    with rg.Session() as session:
        compiled = session.compile(step)
        for _ in range(4):
            a, b = compiled(vector())
            assert a.tolist() == [2.0, 4.0, 6.0]
            assert b.tolist() == [4.0, 16.0, 36.0]
