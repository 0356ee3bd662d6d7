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
