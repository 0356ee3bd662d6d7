"""`as_strided` of a view reads the memory of its base, as PyTorch's does; gradients, changes in place and sessions."""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

MEMORY = np.arange(20.0)


def reached(T: Any) -> list[Any]:
    """What views of ten elements in the middle of the memory show around them, and the gradients."""
    out: list[Any] = []
    inner = T.tensor(MEMORY)[5:15].requires_grad_()
    for offset in (None, 0, 10, 4):
        y = T.as_strided(inner, (2, 2), (1, 2), offset)
        (first,) = T.autograd.grad([(y * y * T.tensor([[1.0, 2], [3, 4]])).sum()], [inner], create_graph=True)
        (second,) = T.autograd.grad((first * first).sum(), inner)
        out += [y.tolist(), y.stride(), first.tolist(), second.tolist()]
    return out


def differentiated(T: Any) -> list[Any]:
    base = T.tensor(MEMORY, requires_grad=True)
    twice = base * 2
    y = twice[5:15].as_strided((4,), (2,), 3)
    return [y._base is twice, y.tolist(), T.autograd.grad((y * y).sum(), base)[0].tolist()]


def changed(T: Any) -> list[Any]:
    base = T.tensor(MEMORY, requires_grad=True)
    twice = base * 2
    y = twice[5:15].as_strided((4,), (2,), 3)
    y.mul_(3)
    return [twice.tolist(), T.autograd.grad((twice * twice).sum(), base)[0].tolist()]


def changed_around(T: Any) -> list[Any]:
    base = T.tensor(MEMORY, requires_grad=True)
    inner = (base * 2)[5:15]
    y = inner.as_strided((4,), (2,), 3)
    inner.mul_(3)
    return [y.tolist(), T.autograd.grad((y * y).sum(), base)[0].tolist()]


def expanded(T: Any) -> list[Any]:
    inner = T.tensor(MEMORY)[3:4].expand(3).requires_grad_()
    y = inner.as_strided((4,), (1,), 2)
    return [y.tolist(), T.autograd.grad((y * y).sum(), inner)[0].tolist()]


@pytest.mark.oracle
@pytest.mark.parametrize("program", [reached, differentiated, changed, changed_around, expanded])
def test_a_view_reaches_what_its_base_shows(program: Any) -> None:
    torch = pytest.importorskip("torch")
    expected = program(torch)
    assert program(rg) == expected
    with rg.Session():
        assert program(rg) == expected


def test_what_lies_outside_of_the_base_is_refused() -> None:
    inner = rg.tensor(MEMORY)[5:15]
    with pytest.raises(RuntimeError, match=r"outside of the tensor of shape \[20\]"):
        inner.as_strided((2, 2), (1, 20), 0)
