"""jvp and linearize: what only raygrad promises; the contract's programs compare the rest with torch."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
import raygrad.autograd.forward_ad as fw
from raygrad import func


def test_jvp_inside_and_around_a_dual_level() -> None:
    x, t = rg.tensor([2.0]), rg.tensor([1.0])

    def f(x: Any) -> Any:
        with fw.dual_level():
            return fw.unpack_dual(fw.make_dual(x, t) ** 3).tangent

    assert func.jvp(f, (x,), (t,))[1].tolist() == [12.0]
    with fw.dual_level():
        tangent = func.jvp(lambda x: x**3, (fw.make_dual(x, t),), (t,))[1]
        second = fw.unpack_dual(tangent).tangent
        assert second is not None
        assert second.tolist() == [12.0]


def test_levels_are_gone_after_an_error() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        func.jvp(fails, (rg.ones(1),), (rg.ones(1),))
    assert func.jvp(lambda x: x * 2, (rg.ones(1),), (rg.ones(1),))[1].tolist() == [2.0]


def test_linearize_of_several_arguments() -> None:
    value, derivative = func.linearize(lambda x, y: x * y, rg.tensor([2.0]), rg.tensor([3.0]))
    assert value.tolist() == [6.0]
    assert derivative(rg.tensor([1.0]), rg.tensor([10.0])).tolist() == [23.0]
