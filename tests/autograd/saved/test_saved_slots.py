"""What a Function saved: in which order, and as what (CX)."""

from __future__ import annotations

from typing import Any

import raygrad as rg
from raygrad.autograd.saved.saved_slots import INPUT, OUTPUT, VALUE, origin_of

from ..functions.test_context import saving, vector


def test_cx_05_order_is_kept_and_the_last_call_counts(T: Any):
    class Twice(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a)
            ctx.save_for_backward(b, a)
            return a + b

        @staticmethod
        def backward(ctx, g):
            first, second = ctx.saved_tensors
            return g * first, g * second

    a, b = vector(T, 2), vector(T, 3)
    Twice.apply(a, b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([3], [2])


def test_cx_05_06_nothing_and_none_may_be_saved(T: Any):
    y = saving(T, lambda x, m, y: ()).apply(vector(T, 1))
    assert y.grad_fn.saved_tensors == ()
    y = saving(T, lambda x, m, y: (None, x, None)).apply(vector(T, 1))
    first, kept, last = y.grad_fn.saved_tensors
    assert first is None
    assert last is None
    assert kept.tolist() == [1]


def test_h7_a_replayed_context_gives_back_the_tensors_of_the_tape():
    class Keeping(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            y = x * 2
            own = x + 1
            ctx.save_for_backward(x, own, y)
            ctx.x, ctx.n, ctx.own = x, n, own
            return y

        @staticmethod
        def backward(ctx, g):
            raise AssertionError

    node = Keeping.apply(vector(rg, 1), 3).grad_fn
    assert [(slot.kind, slot.position) for slot in node._saved if slot.kind in (INPUT, OUTPUT)] == [
        (INPUT, 0),
        (OUTPUT, 0),
    ]
    assert set(node._attributes()) == {"x", "n", "own"}
    x, y = vector(rg, 10), vector(rg, 20)
    copy = node.replay([x, None], [y])
    saved_x, own, saved_y = copy.saved_tensors
    assert saved_x is x
    assert saved_y is y
    assert own.tolist() == [2]
    assert copy.x is x
    assert copy.n == 3
    assert node.x is not x


def test_what_is_saved_is_known_as_an_input_or_output_by_its_position_or_as_a_value():
    y = saving(rg, lambda x, middle, y: (y, None, middle, x)).apply(vector(rg, 1))
    places = [slot if slot is None else (slot.kind, slot.position) for slot in y.grad_fn._saved]
    assert places == [(OUTPUT, 0), None, (VALUE, -1), (INPUT, 0)]


def test_arguments_that_stand_for_themselves_are_kept_as_they_are():
    x = vector(rg, 1)
    node = saving(rg, lambda x, middle, y: (x,)).apply(x).grad_fn
    assert node._kept is not None
    assert node._kept[0] is x
    assert [(slot.kind, slot.position) for slot in node._saved] == [(INPUT, 0)]
    changed = vector(rg, 1) * 1
    changed.add_(1)
    node = saving(rg, lambda x, middle, y: (x,)).apply(changed).grad_fn
    assert node._kept is None
    assert [(slot.kind, slot.version) for slot in node._saved] == [(INPUT, 1)]


def test_cx_16_an_input_that_was_changed_in_place_is_the_output_that_it_has_become() -> None:
    x, y = rg.ones(1), rg.ones(1)
    assert origin_of(x, (x, y), (x,)) == (INPUT, 0)
    assert origin_of(x, (x, y), (x,), (x,)) == (OUTPUT, 0)
    assert origin_of(y, (x, y), (x,), (x,)) == (INPUT, 1)


def test_a_view_of_an_argument_that_forward_changes_may_be_saved(T: Any):
    class Doubled(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            ctx.save_for_backward(x.detach()[1:])
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            (rest,) = ctx.saved_tensors
            return g * rest

    x = vector(T, 1, 3)
    Doubled.apply(x * 1).sum().backward()
    assert x.grad.tolist() == [6, 6]
