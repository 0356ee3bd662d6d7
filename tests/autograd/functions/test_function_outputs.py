"""What apply returns: outputs that are arguments, views of them, or changed in place (OU)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg


def x_of(T: Any, *shape: int, requires_grad: bool = True) -> Any:
    count = int(np.prod(shape))
    return T.tensor(np.arange(1.0, count + 1).reshape(shape), requires_grad=requires_grad)


def through(T: Any, body: Any, factor: float = 3.0, outputs: int = 1) -> Any:
    """A Function of one tensor whose forward is `body(ctx, x)` and whose backward scales the first gradient."""

    class Through(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return body(ctx, x)

        @staticmethod
        def backward(ctx, g, *others):
            return g * factor

    return Through


def doubled_in_place(ctx: Any, x: Any) -> Any:
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


def test_ou_16_a_dirty_input_is_the_output(T: Any):
    x = x_of(T, 3)
    y = x * 1
    before, producer = y._version, y.grad_fn
    z = through(T, doubled_in_place, 2.0).apply(y)
    assert z is y
    assert z.grad_fn is not producer
    assert z.grad_fn.next_functions == ((producer, 0),)
    assert z._version == before + 2
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_ou_17_a_dirty_input_begins_to_require_grad(T: Any):
    class AddInto(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            x.add_(y)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g, g * 2

    x, y = x_of(T, 2, requires_grad=False), x_of(T, 2)
    z = AddInto.apply(x, y)
    assert z is x
    assert not x.is_leaf
    assert x.requires_grad
    z.sum().backward()
    assert y.grad.tolist() == [2.0, 2.0]


def test_ou_18_a_leaf_that_requires_grad_cannot_be_dirty(T: Any):
    F = through(T, doubled_in_place)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        F.apply(x_of(T, 2))
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        F.apply(x_of(T, 2)[:1])


def test_ou_19_a_dirty_input_must_be_returned(T: Any):
    def forgotten(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x + 1

    for requires_grad in (True, False):
        with pytest.raises(RuntimeError, match=r"(?s)marked as dirty.*were not returned"):
            through(T, forgotten).apply(x_of(T, 2, requires_grad=requires_grad) * 1)


def test_ou_20_only_inputs_belong_among_the_dirty(T: Any):
    def odd(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.mark_dirty(y)
        return y

    with pytest.warns(UserWarning, match="(?i)input"):
        y = through(T, odd).apply(x_of(T, 2))
    y.sum().backward()
    with pytest.raises(RuntimeError, match="mark_dirty can only accept"):
        through(T, lambda ctx, x: ctx.mark_dirty([x]) or x * 2).apply(x_of(T, 2))


def test_ou_21_a_dirty_view_rewrites_its_base(T: Any):
    x = x_of(T, 4)
    base = x * 1
    view = base[:2]
    through(T, doubled_in_place, 10.0).apply(view)
    assert base.tolist() == [2.0, 4.0, 3.0, 4.0]
    (base * T.tensor([1.0, 2.0, 3.0, 4.0], dtype=T.float64)).sum().backward()
    assert x.grad.tolist() == [10.0, 20.0, 3.0, 4.0]


def test_ou_22_a_dirty_view_is_the_only_output(T: Any):
    def two(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x, x + 1

    with pytest.raises(RuntimeError, match="modifies inplace an input"):
        through(T, two).apply((x_of(T, 4) * 1)[:2])


def test_ou_23_a_change_that_is_not_marked_is_an_error():
    with pytest.raises(RuntimeError, match=r"changed argument 0 in place without saying so.*mark_dirty"):
        through(rg, lambda ctx, x: x.mul_(2)).apply(x_of(rg, 2) * 1)


def test_ou_24_dirty_and_not_differentiable(T: Any):
    def both(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        ctx.mark_non_differentiable(x)
        return x

    x = x_of(T, 2)
    y = x * 1
    z = through(T, both).apply(y)
    assert z is not y
    assert not z.requires_grad
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_ou_09_an_input_returned_as_it_is_is_a_view_of_it(T: Any):
    x = x_of(T, 3)
    y = through(T, lambda ctx, x: x).apply(x)
    assert y is not x
    assert y._base is x
    with pytest.raises(RuntimeError, match=r"is a view and is being modified[\s\S]*created inside a custom Function"):
        y.add_(1)


def test_ou_11_a_view_of_an_input_must_not_be_rewritten(T: Any):
    y = through(T, lambda ctx, x: x[1:]).apply(x_of(T, 3) * 1)
    with pytest.raises(RuntimeError, match=r"is a view and is being modified[\s\S]*created inside a custom Function"):
        y.mul_(2)


def test_ou_12_a_view_whose_base_was_changed_cannot_be_used(T: Any):
    base = x_of(T, 3) * 1
    y = through(T, lambda ctx, x: x[1:]).apply(base)
    base.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base"):
        _ = y * 2
    assert y.detach().tolist() == [4.0, 6.0]


def test_ou_13_several_views_must_not_be_rewritten(T: Any):
    first, _ = through(T, lambda ctx, x: (x[1:], x[:1])).apply(x_of(T, 3) * 1)
    with pytest.raises(RuntimeError, match="function that returns multiple views"):
        first.mul_(2)


def test_ou_15_a_view_made_without_gradient(T: Any):
    F = through(T, lambda ctx, x: x[1:])
    x = x_of(T, 3) * 1
    with T.no_grad():
        y = F.apply(x)
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        y.mul_(x_of(T, 2))
    z = F.apply(x_of(T, 3, requires_grad=False))
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        z.mul_(x_of(T, 2))


def test_ou_27_a_captured_tensor_keeps_its_history():
    captured = x_of(rg, 2)
    with pytest.warns(UserWarning, match="captured and that requires grad"):
        y = through(rg, lambda ctx, x: captured).apply(x_of(rg, 2))
    assert y is not captured
    assert captured.is_leaf
    y.sum().backward()
    assert captured.grad is None


def test_cx_16_a_saved_dirty_input_comes_back_changed(T: Any):
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(x)
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            assert y.grad_fn is not None
            return g * y

    x = x_of(T, 3)
    Square.apply(x * 1).sum().backward()
    assert x.grad.tolist() == [1.0, 4.0, 9.0]


def test_cx_17_a_saved_input_returned_as_is_in_the_separate_style(T: Any):
    class Same(T.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="returned as-is"):
        Same.apply(x_of(T, 2))


def test_a_dirty_input_that_is_no_dense_array_is_written_back(T: Any):
    base = x_of(T, 4) * 1
    odd = base[::2]
    z = through(T, doubled_in_place, 2.0).apply(odd)
    assert z is odd
    assert base.tolist() == [2.0, 2.0, 6.0, 4.0]


def test_a_fresh_output_needs_no_copy():
    made: list[int] = []

    def body(ctx: Any, x: Any) -> Any:
        y = x * 2
        made.append(id(y))
        return y

    y = through(rg, body).apply(x_of(rg, 2))
    assert id(y) == made[0]


def test_an_output_that_somebody_else_holds_is_left_alone():
    held: list[Any] = []

    def body(ctx: Any, x: Any) -> Any:
        held.append(x * 2)
        return held[0]

    y = through(rg, body).apply(x_of(rg, 2))
    assert y is not held[0]
    assert not held[0].requires_grad
