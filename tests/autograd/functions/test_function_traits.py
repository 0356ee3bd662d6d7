"""What a Function class amounts to."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.functions.function_traits import may_mark, may_write, unwritten


class Double(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Inherits(Double):
    pass


def test_a_plan_tells_the_style():
    assert Double._traits.setup is None

    class Separate(rg.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    assert Separate._traits.setup is Separate.setup_context


def test_a_class_that_is_patched_is_planned_anew_with_those_that_inherit_from_it(monkeypatch: pytest.MonkeyPatch):
    x = rg.ones(2, requires_grad=True)
    monkeypatch.setattr(Double, "backward", staticmethod(lambda ctx, g: g * 5))
    Inherits.apply(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [5.0, 5.0]


def test_a_method_that_is_deleted_is_no_longer_called():
    class Temporary(Double):
        backward = staticmethod(lambda ctx, g: g * 7)

    del Temporary.backward
    x = rg.ones(2, requires_grad=True)
    Temporary.apply(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


def test_fn_16_both_names_of_the_backward_raise_when_the_node_runs():
    class Both(Double):
        vjp = staticmethod(lambda ctx, g: g)

    y = Both.apply(rg.ones(2, requires_grad=True)).sum()
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        y.backward()


def test_fn_23_flags_are_genuine_bools():
    assert not Double._traits.boxed
    assert Double.vjp is unwritten

    class Odd(Double):
        boxed_grads_call = 1

    with pytest.raises(RuntimeError, match="boxed_grads_call must be a bool, got int"):
        Odd.apply(rg.ones(2))


def test_what_decorates_a_forward_makes_its_note_before_setup_context():
    order: list[str] = []

    def forward(x: Any) -> Any:
        order.append("forward")
        return x * 1

    forward.note_on_context = lambda ctx: order.append(f"note on {ctx.name()}")  # type: ignore[attr-defined]

    class Noted(rg.autograd.Function):
        setup_context = staticmethod(lambda ctx, inputs, output: order.append("setup"))

    Noted.forward = staticmethod(forward)
    Noted.apply(rg.ones(1))
    assert order == ["forward", "note on NotedBackward", "setup"]


class Changes(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        def mark():
            ctx.mark_dirty(x)

        mark()
        return x.add_(y), y * y


def test_a_function_may_mark_what_its_code_names():
    assert not may_mark(Double)
    assert may_mark(Changes)

    class Decorated(rg.autograd.Function):
        forward = staticmethod(functools.wraps(Changes.forward)(lambda *args: args))

    class Compiled(rg.autograd.Function):
        forward = staticmethod(functools.partial(Double.forward))  # which shows no code

    assert may_mark(Decorated)
    assert may_mark(Compiled)


def test_arguments_of_one_memory_stay_so_where_one_may_be_changed():
    base = rg.arange(12.0).reshape(3, 4)
    x, y = base[:, 1:3], base[:, 2]
    _, squared = Changes.apply(x, y.reshape(3, 1))
    assert squared.flatten().tolist() == [(2.0 * n) ** 2 for n in y.clone().div(2.0).tolist()]


from_numpy = rg.from_numpy


def writing(x):
    x[0] = 1.0


@pytest.mark.parametrize(("helper", "writes"), [(from_numpy, False), (writing, True)])
def test_raygrads_own_functions_write_to_no_argument_unseen(helper, writes):
    class Helped(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return helper(x)

    assert may_write(Helped) is writes
