"""vmap in sessions: the same values, gradients and errors as eagerly, whatever is mapped and whoever says how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .agreement import MODES, attempted, disagreements, eagerly, in_session


def numbers(*shape: int, grad: bool = False) -> Any:
    return rg.tensor(np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape), requires_grad=grad)


class Generated(rg.autograd.Function):
    """sin(x) * w * scale, of which vmap makes one of all examples."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, w: Any, scale: float) -> Any:
        return x.sin() * w * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w, ctx.scale = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * x.cos() * w * ctx.scale, g * x.sin() * ctx.scale, None


class OnArrays(rg.autograd.Function):
    """exp(x), on arrays in both directions."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return rg.from_numpy(np.exp(x.detach().numpy()))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


class Own(rg.autograd.Function):
    """The same as `Generated`, which says itself what it does with examples, and what it was told of them."""

    @staticmethod
    def forward(x: Any, w: Any, scale: float) -> Any:
        return x.sin() * w * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w, ctx.scale = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * x.cos() * w * ctx.scale, g * x.sin() * ctx.scale, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, w: Any, scale: float) -> Any:
        x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x.expand(info.batch_size, *x.shape)
        w = w.movedim(in_dims[1], 0) if in_dims[1] is not None else w.expand(info.batch_size, *w.shape)
        return Own.apply(x, w, scale * (10.0 if info.randomness == "same" else 1.0)), 0


class TwoOutputs(rg.autograd.Function):
    """Two outputs, of which the second is the same for all examples where its input is."""

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x * 2.0, w * 3.0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return g * 2.0, h * 3.0

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, w: Any) -> Any:
        return TwoOutputs.apply(x, w), (in_dims[0], in_dims[1])


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "built-in ops": lambda x, w: (x.sin() * w).sum(-1) + (x * x).mean(),
    "a product of matrices": lambda x, w: (x.unsqueeze(-1) @ w.unsqueeze(0)).sum(0),
    "views": lambda x, w: rg.cat([x[1:], w[:1]]).reshape(-1, 1).expand(-1, 2),
    "a change in place": lambda x, w: (x * 1.0).mul_(w).add_(x),
    "a view changed in place": lambda x, w: ((y := x * 1.0)[1:].mul_(w[1:]), y)[1],
    "views of examples": lambda x, w: x[1:3] * w[:2],
    "a choice": lambda x, w: rg.where(x > 1.0, x, w),
    "a generated rule": lambda x, w: Generated.apply(x, w, 2.0),
    "a generated rule of arrays": lambda x, w: OnArrays.apply(x) * w,
    "a rule of its own": lambda x, w: Own.apply(x, w, 2.0),
    "two outputs": lambda x, w: rg.cat(TwoOutputs.apply(x, w)),
    "one after the other": lambda x, w: Own.apply(OnArrays.apply(Generated.apply(x, w, 0.5)), w.exp(), 3.0),
    "a gradient": lambda x, w: rg.func.grad(lambda x: Generated.apply(x, w, 2.0).sum())(x),
    "a gradient of its own rule": lambda x, w: rg.func.grad(lambda w: (Own.apply(x, w, 2.0) ** 2).sum())(w),
    "a gradient in a checkpoint": lambda x, w: rg.func.grad(lambda x: (x.exp() * w).sum() ** 2)(x),
}

DIMS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "first": (0, (3, 4), (3, 4)),
    "last": (-1, (4, 3), (4, 3)),
    "one each": ((1, 0), (4, 3), (3, 4)),
    "the first alone": ((0, None), (3, 4), (4,)),
    "the second alone": ((None, 1), (4,), (4, 3)),
}


def mapped(name: str, dims: str, out_dims: Any = 0, **options: Any) -> list[Any]:
    """Return what a mapped function gives, and the gradients of what it was given."""
    in_dims, *shapes = DIMS[dims]
    x, w = (numbers(*shape, grad=True) for shape in shapes)
    y = rg.vmap(FUNCTIONS[name], in_dims=in_dims, out_dims=out_dims, **options)(x, w)
    (y * numbers(*y.shape)).sum().backward()
    return [y, x.grad, w.grad]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_mapped_functions_and_their_gradients_are_what_they_are_eagerly(name: str, mode: str) -> None:
    def program() -> Any:
        return {dims: attempted(lambda dims=dims: mapped(name, dims)) for dims in DIMS}

    expected = eagerly(program)
    refused = {dims for dims, seen in expected.items() if type(seen) is tuple}
    assert refused == ({"the second alone"} if "in place" in name else set()), "of one example it is no memory of all"
    assert disagreements(in_session(program, mode), expected) == {}


@pytest.mark.parametrize("mode", MODES)
def test_results_lie_along_the_dimension_that_was_asked_for(mode: str) -> None:
    def program() -> Any:
        seen: list[Any] = [mapped(name, "one each", out) for name in ("built-in ops", "views") for out in (0, -1)]
        x, w = numbers(3, 4), numbers(3, 4)
        both = rg.vmap(lambda x, w: {"one": [x * w], "two": (x.sum(), w)}, out_dims={"one": [1], "two": (0, -1)})(x, w)
        shared = rg.vmap(lambda x: (x * 2.0, w), out_dims=(1, None))(x)
        pair = rg.vmap(lambda one: one["x"] + one["w"][0], in_dims=({"x": 0, "w": [None]},))({"x": x, "w": [w[0]]})
        return [*seen, both, shared, pair, shared[1] is w]

    expected = eagerly(program)
    assert expected[-1] is True
    assert disagreements(in_session(program, mode), expected) == {}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name", ["a choice", "views of examples", "a generated rule", "a rule of its own", "a gradient"]
)
def test_maps_of_maps_are_what_they_are_eagerly(name: str, mode: str) -> None:
    def program() -> Any:
        seen: list[Any] = []
        for inner, outer in (((0, 0), (0, 0)), ((0, None), (None, 0)), ((None, 0), (1, 0)), ((1, 0), (0, 0))):
            spread = [inner[n] is not None or outer[n] is not None for n in range(2)]
            shapes: list[tuple[int, ...]] = [(4,), (4,)]
            for dims, size in ((inner, 3), (outer, 2)):
                for n, dim in enumerate(dims):
                    if dim is not None:
                        shape = list(shapes[n])
                        shape.insert(dim, size)
                        shapes[n] = tuple(shape)
            assert all(spread)
            x, w = (numbers(*shape, grad=True) for shape in shapes)
            twice = rg.vmap(rg.vmap(FUNCTIONS[name], in_dims=inner, out_dims=1), in_dims=outer)
            y = twice(x, w)
            y.exp().sum().backward()
            seen += [y, x.grad, w.grad]
        return seen

    expected = eagerly(program)
    assert type(expected) is list
    assert disagreements(in_session(program, mode), expected) == {}


DERIVED: dict[str, Callable[[], Any]] = {
    "gradients of each example": lambda: rg.vmap(
        rg.func.grad(lambda w, x: Own.apply(x, w, 2.0).sum() ** 2), in_dims=(None, 0)
    )(numbers(4), numbers(3, 4)),
    "the gradient of a sum of gradients": lambda: second_order("a generated rule"),
    "the gradient of a sum of gradients of ops": lambda: second_order("built-in ops"),
    "a jacobian": lambda: rg.func.jacrev(lambda x: Generated.apply(x, numbers(3), 2.0).cumsum(0))(numbers(3)),
    "a jacobian forward": lambda: rg.func.jacfwd(lambda x: x.exp() * x.sum())(numbers(3)),
    "a hessian": lambda: rg.func.hessian(lambda x: (x**3).sum() * x[0])(numbers(3)),
    "gradients of a batch of cotangents": lambda: of_cotangents(lambda x: Generated.apply(x, numbers(4), 2.0)),
    "gradients of a batch of cotangents by a rule of its own": lambda: of_cotangents(
        lambda x: Own.apply(x, numbers(4), 2.0)
    ),
    "gradients of a batch of cotangents of ops": lambda: of_cotangents(lambda x: (x.exp() * x).cumsum(0)),
}


def second_order(name: str) -> list[Any]:
    x, w = numbers(3, 4, grad=True), numbers(4, grad=True)
    y = rg.vmap(FUNCTIONS[name], in_dims=(0, None))(x, w)
    (grad,) = rg.autograd.grad(y.exp().sum(), x, create_graph=True)
    (grad * grad).sum().backward()
    return [grad, x.grad, w.grad]


def of_cotangents(function: Callable[[Any], Any]) -> Any:
    x = numbers(4, grad=True)
    y = function(x)
    return rg.autograd.grad(y, x, numbers(3, *y.shape), is_grads_batched=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", DERIVED)
def test_derivatives_by_way_of_maps_are_what_they_are_eagerly(name: str, mode: str) -> None:
    expected = eagerly(DERIVED[name])
    assert type(expected) is list or type(expected[1]) is bool, expected
    assert disagreements(in_session(DERIVED[name], mode), expected) == {}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_random_numbers_of_examples_are_those_that_are_drawn_eagerly(chunk_size: int | None, mode: str) -> None:
    def noisy(x: Any) -> Any:
        return x + rg.randn(4), rg.dropout(x + 1.0, 0.5), rg.rand_like(x), rg.randint(0, 100, (2,)), rg.randperm(5)

    def program() -> Any:
        x = numbers(5, 4)
        seen: list[Any] = [
            rg.vmap(noisy, randomness=randomness, chunk_size=chunk_size)(x) for randomness in ("same", "different")
        ]
        nested = rg.vmap(rg.vmap(lambda x: x + rg.randn(()), randomness="same"), randomness="different")
        seen += [nested(x), attempted(lambda: rg.vmap(noisy, chunk_size=chunk_size)(x)), rg.rand(2)]
        for randomness in ("same", "different"):  # its rule is told which
            seen.append(rg.vmap(lambda x: Own.apply(x, x, 2.0), randomness=randomness, chunk_size=chunk_size)(x))
        return seen

    expected = eagerly(program)
    assert "randomness" in expected[3][1]
    assert disagreements(in_session(program, mode), expected) == {}


class Combined(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2


class WithoutRule(rg.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass


class OddRule(WithoutRule):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return x * 2


class FailingRule(WithoutRule):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        raise ValueError(f"no rule for {info.batch_size} examples along {in_dims}")


REFUSED: dict[str, Callable[[Any], Any]] = {
    "sizes that differ": lambda x: rg.vmap(lambda x, y: x + y)(x, numbers(5)),
    "no example": lambda x: rg.vmap(lambda x: x, in_dims=(None,))(x),
    "dimensions that do not fit": lambda x: rg.vmap(lambda x: x, in_dims=2)(x),
    "a result that is no tensor": lambda x: rg.vmap(lambda x: 3)(x),
    "a number of each example": lambda x: rg.vmap(lambda x: x.sum().item() * x)(x),
    "a choice by each example": lambda x: rg.vmap(lambda x: x if x.sum() > 0 else -x)(x),
    "shapes by each example": lambda x: rg.vmap(lambda x: x[x > 1.0])(x),
    "a captured tensor changed": lambda x: rg.vmap(numbers(4).add_)(x),
    "an operand that shares a part": lambda x: rg.vmap(lambda x: (y := x.reshape(2, 2)).add_(y.T))(x),
    "shapes that do not fit": lambda x: rg.vmap(lambda x: x + numbers(3))(x),
    "a context in forward": lambda x: rg.vmap(Combined.apply)(x),
    "no rule": lambda x: rg.vmap(WithoutRule.apply)(x),
    "a rule without dimensions": lambda x: rg.vmap(OddRule.apply)(x),
    "a rule that fails": lambda x: rg.vmap(FailingRule.apply)(x),
}


@pytest.mark.parametrize("mode", MODES)
def test_what_cannot_be_mapped_is_refused_in_the_same_words(mode: str) -> None:
    def program() -> Any:
        return {name: attempted(lambda step=step: step(numbers(3, 4))) for name, step in REFUSED.items()}

    expected = eagerly(program)
    assert {name for name, seen in expected.items() if type(seen[1]) is not str} == set()
    assert disagreements(in_session(program, mode), expected) == {}


def test_maps_inside_user_code_run_where_that_runs() -> None:
    class Mapping(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return rg.vmap(lambda row: (row * row).sum())(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return rg.vmap(lambda row, g: row * 2.0 * g)(x, g)

    def program() -> Any:
        x = numbers(3, 4, grad=True)
        y = Mapping.apply(x)
        y.exp().sum().backward()
        return [y, x.grad]

    expected = eagerly(program)
    for mode in MODES:
        assert disagreements(in_session(program, mode), expected) == {}
