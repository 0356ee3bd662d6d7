"""A tensor that is changed in place keeps the order of its axes in a session, as eagerly (H1, EN-32)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

from .test_shared_memory import MODES


def trained_in_fortran_order() -> tuple[int, ...]:
    """Return the strides of a parameter in Fortran order after two steps of Adam, whose state is in C order."""
    weight = rg.from_numpy(np.asfortranarray(np.arange(6.0).reshape(2, 3))).requires_grad_()
    optimizer = rg.optim.Adam([weight], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (weight * weight).sum().backward()
        optimizer.step()
    return weight.stride()


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_en_32_a_parameter_keeps_the_order_of_its_axes(mode: Any) -> None:
    with mode():
        assert trained_in_fortran_order() == (1, 2)


@pytest.mark.parametrize("change", [lambda t, c: t.add_(c), lambda t, c: t.copy_(c), lambda t, c: t.mul_(c).sub_(1.0)])
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_en_32_a_change_in_place_keeps_it(mode: Any, change: Any, axes: tuple[int, ...]) -> None:
    array = np.empty([(2, 3, 4)[axis] for axis in axes]).transpose(np.argsort(axes))
    array[...] = 1.0
    with mode():
        tensor, other = rg.from_numpy(array), rg.full((2, 3, 4), 2.0, dtype=rg.float64)
        before = tensor.stride()
        change(tensor, other)
        assert tensor.stride() == before
        assert (tensor * 1.0).numpy().strides == (array * 1.0).strides


def fortran(seed: int) -> rg.Tensor:
    return rg.from_numpy(np.asfortranarray(np.random.default_rng(seed).normal(size=(7, 5))))


class InFortranOrder(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return rg.from_numpy(np.asfortranarray(x.numpy() * 2))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


def changed_in_place() -> list[rg.Tensor]:
    changed, other = fortran(0).clone(), rg.ones(7, 5, dtype=rg.float64)
    changed.mul_(other)
    changed[2] = 3.0
    return [changed]


def copied_over() -> list[rg.Tensor]:
    changed, product = fortran(0).clone(), fortran(0).t() @ fortran(1)
    product.copy_(rg.zeros(5, 5, dtype=rg.float64).t())
    return [changed.copy_(rg.zeros(7, 5, dtype=rg.float64)), product]


def changed_through_a_view() -> list[rg.Tensor]:
    changed = fortran(0).clone()
    changed.t().add_(rg.ones(5, 7, dtype=rg.float64))
    changed[1:].mul_(rg.ones(6, 5, dtype=rg.float64))
    return [changed, changed.t()]


def gradients_of_leaves_made_there() -> list[rg.Tensor]:
    copied = fortran(0).clone().requires_grad_()
    product = (fortran(0) @ fortran(1).t()).t().requires_grad_()
    of_function = InFortranOrder.apply(rg.ones(7, 5, dtype=rg.float64)).detach().requires_grad_()
    for leaf in (copied, product, of_function) * 2:
        (leaf * rg.full(leaf.shape, 3.0, dtype=rg.float64)).sum().backward()
    return [copied.grad, product.grad, of_function.grad]  # type: ignore[list-item]


def gradients_with_a_history() -> list[rg.Tensor]:
    x = fortran(0).requires_grad_()
    y = InFortranOrder.apply(x * rg.ones(7, 5, dtype=rg.float64))
    (first,) = rg.autograd.grad((y**3).sum(), x, create_graph=True)
    (first * first).sum().backward()
    return [y, first, x.grad]  # type: ignore[list-item]


def trained_from_a_copy() -> list[rg.Tensor]:
    weight = fortran(0).clone().requires_grad_()
    optimizer = rg.optim.Adam([weight], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (weight * rg.ones(7, 5, dtype=rg.float64)).sin().sum().backward()
        optimizer.step()
    return [weight, weight.grad]  # type: ignore[list-item]


@pytest.mark.parametrize(
    "program",
    [
        changed_in_place,
        copied_over,
        changed_through_a_view,
        gradients_of_leaves_made_there,
        gradients_with_a_history,
        trained_from_a_copy,
    ],
)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_en_32_what_only_a_kernel_has_laid_out_keeps_the_order_of_its_axes(mode: Any, program: Any) -> None:
    eagerly = [(value.stride(), value.sum(0).tolist()) for value in program()]
    with mode():
        assert [(value.stride(), value.sum(0).tolist()) for value in program()] == eagerly
