"""Random numbers of derivatives of Functions under vmap, in sessions the same as eagerly (DR-15, VM-12)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

from .random_programs import Inner, bits


class Opaque(rg.autograd.Function):
    """Draws in backward; vmap knows no rule for it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * rg.rand(3) * Inner.apply(rg.ones(3))


class Ruled(rg.autograd.Function):
    """Draws in its derivatives alone, and has a generated rule."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * rg.rand(3) * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return tangent * rg.rand(3)


def vmapped_pass(randomness: str) -> Any:
    x = rg.ones(3, requires_grad=True)
    y = Opaque.apply(x)

    def row(vector: Any) -> Any:
        return rg.autograd.grad(y, x, vector, retain_graph=True)[0]

    rows = rg.vmap(row, randomness=randomness)
    return [rows(rg.eye(3)), rg.vmap(rows, randomness=randomness)(rg.ones((2, 2, 3)))]


def ruled(randomness: str) -> Any:
    x = rg.ones((2, 3), requires_grad=True)
    y = rg.vmap(Ruled.apply, randomness=randomness)(x)
    y.sum().backward(retain_graph=True)
    return [y, x.grad, rg.autograd.grad(y.sum(), x, create_graph=True)[0]]


def pushed(randomness: str) -> Any:
    x = rg.ones((2, 3))
    return [*rg.func.jvp(rg.vmap(Ruled.apply, randomness=randomness), (x,), (x,))]


def jacobian(randomness: str) -> Any:
    return [rg.func.jacfwd(Ruled.apply, randomness=randomness)(rg.ones(3))]


CASES = [
    (derivative, randomness)
    for derivative in (vmapped_pass, ruled, pushed, jacobian)
    for randomness in ("error", "same", "different")
    if derivative is not jacobian or randomness != "different"  # eagerly one call of jvp draws for all tangents
]


@pytest.mark.parametrize(("derivative", "randomness"), CASES)
def test_derivatives_under_vmap_draw_what_they_draw_eagerly(session: Any, derivative: Any, randomness: str) -> None:
    def program(seed: int) -> Any:
        rg.manual_seed(seed)
        return derivative(randomness)

    if randomness == "error":
        with pytest.raises(RuntimeError, match="randomness error mode"):
            program(1)
        with session, pytest.raises(RuntimeError, match="randomness error mode"):
            bits(program, 1)
        return
    with session:
        inside = bits(program, 1)
    assert inside == bits(program, 1)


def test_a_draw_for_one_tangent_of_several_is_refused(session: Any) -> None:
    with session, pytest.raises(RuntimeError, match=r"once for each tangent.*randomness='same'"):
        jacobian("different")[0].tolist()


class InNumpy(Ruled):
    """Has a jvp for arrays."""

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return rg.from_numpy(tangent.numpy() * 2.0)


@pytest.mark.parametrize("function", [Ruled, InNumpy])
def test_a_jacobian_by_forward_mode_counts_as_one_application(session: Any, function: Any) -> None:
    def program(seed: int) -> Any:
        rg.manual_seed(seed)
        jacobian = rg.func.jacfwd(function.apply, randomness="same")(rg.ones(3))
        return [jacobian, Inner.apply(rg.ones(3)), rg.rand(2)]

    with session:
        inside = bits(program, 1)
    assert inside == bits(program, 1)
