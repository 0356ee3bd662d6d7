"""The document of `Function`, member by member, in both styles."""

from __future__ import annotations

from inspect import getattr_static
from typing import Any

import pytest

import raygrad as torch
from raygrad.autograd import Function, forward_ad as fwAD, grad

from .members import ATTRIBUTES, METHODS, without_a_test


def leaf(*values: float) -> Any:
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


class Square(Function):
    """Combined style."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Product(Function):
    """Separate style."""

    @staticmethod
    def forward(x: Any, y: Any, scale: float = 1.0) -> Any:
        return x * y * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, y, scale = inputs
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        ctx.scale = scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        gx = g * y * ctx.scale if ctx.needs_input_grad[0] else None
        gy = g * x * ctx.scale if ctx.needs_input_grad[1] else None
        return gx, gy, None

    @staticmethod
    def jvp(ctx: Any, tx: Any, ty: Any, _: Any) -> Any:
        x, y = ctx.saved_tensors
        return (tx * y + x * ty) * ctx.scale

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, y: Any, scale: float) -> Any:
        return Product.apply(x.movedim(in_dims[0], 0), y.movedim(in_dims[1], 0), scale), 0


def test_each_member_has_its_test_here() -> None:
    assert without_a_test(globals(), METHODS + ATTRIBUTES) == []


def test_each_member_is_on_the_class_and_on_the_context() -> None:
    ctx = Product.apply(leaf(1), leaf(2)).grad_fn
    missing = object()
    kinds = (Product, type(ctx), ctx)
    assert [m for m in METHODS + ATTRIBUTES if any(getattr_static(k, m, missing) is missing for k in kinds)] == []


# ---- what users write, and apply -------------------------------------------------------------------------------------


def test_apply() -> None:
    assert Square.apply(leaf(3)).tolist() == [9]
    assert Product.apply(leaf(3), leaf(4)).tolist() == [12]
    assert Product.apply(y=leaf(3), x=leaf(4), scale=2.0).tolist() == [24]
    with pytest.raises(TypeError, match="missing"):
        Product.apply(leaf(3))  # pyright: ignore[reportCallIssue]


def test_forward() -> None:
    assert Product.forward(leaf(3), leaf(4), 2.0).tolist() == [24]
    with pytest.raises(NotImplementedError, match="must implement the forward"):
        Function.apply(leaf(1))


def test_setup_context() -> None:
    assert Product.setup_context is not Function.setup_context
    assert Square.setup_context is Function.setup_context
    assert Product.apply(leaf(1), leaf(1), 5.0).grad_fn.scale == 5


def test_backward() -> None:
    x = leaf(3)
    Square.apply(x).backward()
    assert x.grad.tolist() == [6]

    class Forward(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

    with pytest.raises(NotImplementedError, match="must implement either the backward or vjp"):
        Forward.apply(x).backward()


def test_vjp() -> None:
    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def vjp(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf(3)
    Twice.apply(x).backward()
    assert x.grad.tolist() == [2]


def test_jvp() -> None:
    with fwAD.dual_level():
        x = fwAD.make_dual(leaf(3).detach(), leaf(1).detach())
        y = fwAD.make_dual(leaf(4).detach(), leaf(10).detach())
        tangent: Any = fwAD.unpack_dual(Product.apply(x, y)).tangent
        assert tangent.tolist() == [34]


def test_vmap() -> None:
    x, y = torch.ones(3, 2), torch.ones(3, 2)
    product, where = Product.vmap(None, (0, 0), x, y, 2.0)
    assert (product.shape, where) == ((3, 2), 0)
    with pytest.raises(NotImplementedError, match="override the vmap staticmethod"):
        Function.vmap(None, ())


def test_generate_vmap_rule() -> None:
    assert Product.generate_vmap_rule is False

    class Generated(Square):
        generate_vmap_rule = True

    assert Generated.apply(leaf(1)).grad_fn.generate_vmap_rule is True


# ---- saving ----------------------------------------------------------------------------------------------------------


def test_save_for_backward() -> None:
    x = leaf(3)
    ctx = Square.apply(x).grad_fn
    assert ctx.saved_tensors[0] is x

    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(3)
            return x * 1

    with pytest.raises(TypeError, match="save_for_backward can only save variables"):
        Wrong.apply(x)


def test_saved_tensors() -> None:
    x = leaf(3)
    y = Square.apply(x)
    y.backward()
    with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
        y.grad_fn.saved_tensors  # noqa: B018


def test_saved_variables() -> None:
    x = leaf(3)
    ctx = Square.apply(x).grad_fn
    with pytest.warns(DeprecationWarning, match="saved_variables"):
        assert ctx.saved_variables[0] is x


def test_to_save() -> None:
    seen = []

    class Sees(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append(ctx.to_save)
            ctx.save_for_backward(x, None)
            seen.append(len(ctx.to_save))
            return x * 1

    assert Sees.apply(leaf(1)).grad_fn.to_save is None
    assert seen == [None, 2]


def test_save_for_forward() -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_forward(3)
            return x * 1

    with pytest.raises(AssertionError):
        Bad.apply(leaf(1))


def test_saved_for_forward() -> None:
    seen = []

    class Sees(Product):
        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            Product.setup_context(ctx, inputs, output)
            seen.append(len(ctx.saved_for_forward))

    assert Sees.apply(leaf(1), leaf(2)).grad_fn.saved_for_forward is None
    assert seen == [2]


def test_maybe_clear_saved_tensors() -> None:
    outcomes = []

    class Clears(Square):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            assert ctx.maybe_clear_saved_tensors() is None
            try:
                outcomes.append(len(ctx.saved_tensors))
            except RuntimeError as error:
                outcomes.append("Specify retain_graph=True" in str(error))
            return 2 * x * g

    y = Clears.apply(leaf(3))
    y.backward(retain_graph=True)
    y.backward()
    assert outcomes == [1, True]


# ---- marking ---------------------------------------------------------------------------------------------------------


class AddOne(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def test_mark_dirty() -> None:
    x = leaf(3)
    y = x * 2
    assert AddOne.apply(y) is y
    y.backward()
    assert x.grad.tolist() == [2]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        AddOne.apply(x)


def test_dirty_tensors() -> None:
    seen = []

    class Sees(AddOne):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append(ctx.dirty_tensors)
            y = AddOne.forward(ctx, x)
            seen.append(len(ctx.dirty_tensors))
            return y

    Sees.apply(leaf(3) * 2)
    assert seen == [None, 1]


class Sorted(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        order = x.argsort()
        ctx.mark_non_differentiable(order)
        ctx.order = order
        return x[order], order

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        back = torch.zeros_like(g)
        back[ctx.order] = g
        return back


def test_mark_non_differentiable() -> None:
    x = leaf(3, 1, 2)
    values, order = Sorted.apply(x)
    assert (values.requires_grad, order.requires_grad) == (True, False)
    (values * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [3, 1, 2]


def test_non_differentiable() -> None:
    seen = []

    class Sees(Sorted):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append(ctx.non_differentiable)
            out = Sorted.forward(ctx, x)
            seen.append(ctx.non_differentiable[0] is out[1])
            return out

    Sees.apply(leaf(3, 1))
    assert seen == [None, True]


def test_mark_shared_storage() -> None:
    class Shares(Square):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_shared_storage((x, x))
            return Square.forward(ctx, x)

    with pytest.warns(FutureWarning):
        Shares.apply(leaf(1))


def test_set_materialize_grads() -> None:
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, materialize: bool) -> Any:
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            seen.append(None if second is None else second.tolist())
            return first, None

    for materialize in (True, False):
        Two.apply(leaf(1), materialize)[0].backward()
    assert seen == [[0], None]


def test_materialize_grads() -> None:
    ctx = Square.apply(leaf(1)).grad_fn
    assert ctx.materialize_grads is True
    ctx.set_materialize_grads(False)
    assert ctx.materialize_grads is False


# ---- the node --------------------------------------------------------------------------------------------------------


def test_name() -> None:
    assert Square.apply(leaf(1)).grad_fn.name() == "SquareBackward"


def test_next_functions() -> None:
    x = leaf(1)
    ((node, slot),) = Square.apply(x).grad_fn.next_functions
    assert node.variable is x
    assert slot == 0
    assert len(Product.apply(x, x.detach(), 2.0).grad_fn.next_functions) == 2


def test_needs_input_grad() -> None:
    assert Product.apply(leaf(1), leaf(1).detach(), 2.0).grad_fn.needs_input_grad == (True, False, False)


def test_requires_grad() -> None:
    seen = []

    class Sees(Square):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append(ctx.requires_grad)
            return Square.forward(ctx, x)

    Sees.apply(leaf(1))
    with torch.no_grad():
        Sees.apply(leaf(1))
    Sees.apply(leaf(1).detach())
    assert seen == [True, False, False]


def test_metadata() -> None:
    node = Square.apply(leaf(1)).grad_fn
    assert node.metadata == {}
    node.metadata["note"] = 1
    assert node.metadata == {"note": 1}


def test_register_hook() -> None:
    x = leaf(3)
    y = Square.apply(x)
    handle = y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * outputs[0] * 10,))
    y.backward(retain_graph=True)
    assert x.grad.tolist() == [60]
    handle.remove()
    y.backward()
    assert x.grad.tolist() == [66]


def test_register_prehook() -> None:
    x = leaf(3)
    y = Square.apply(x)
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    y.backward()
    assert x.grad.tolist() == [60]


# ---- together --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [None, {}, {"strict": True}], ids=["eager", "session", "strict"])
def test_both_styles_to_second_order_eagerly_and_in_a_session(options: dict[str, Any] | None) -> None:
    def run() -> list[Any]:
        x, y = leaf(1, 2), leaf(3, 4)
        (gx, gy) = grad(Product.apply(Square.apply(x), y, 2.0).sum(), [x, y], create_graph=True)
        (second,) = grad((gx * gy).sum(), x)
        return [gx.tolist(), gy.tolist(), second.tolist()]

    if options is None:
        found = run()
    else:
        with torch.Session(**options):
            found = run()
    assert found == [[12, 32], [2, 8], [72, 384]]
