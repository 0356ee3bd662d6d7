"""Dual levels and dual tensors (FW-01 to FW-05)."""

# pyright: reportOptionalMemberAccess=false, reportOptionalOperand=false, reportArgumentType=false

from __future__ import annotations

import threading

import numpy as np
import pytest

import raygrad as rg
import raygrad.autograd.forward_ad as fw


def test_levels_are_entered_and_left() -> None:  # FW-01
    assert fw.enter_dual_level() == 0
    with pytest.raises(RuntimeError, match="Nested forward mode"):
        fw.enter_dual_level()
    with pytest.raises(RuntimeError, match="not the last one"):
        fw.exit_dual_level(level=3)
    fw.exit_dual_level()
    with pytest.raises(RuntimeError, match="no dual level"):
        fw.exit_dual_level()
    with fw.dual_level() as level:
        assert level == 0


def test_levels_are_a_threads_own() -> None:
    seen: list[int] = []

    def other() -> None:
        with fw.dual_level() as level:
            seen.append(level)

    with fw.dual_level():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert seen == [0]


def test_a_dual_shares_memory_and_carries_the_tangent_itself() -> None:  # FW-02, FW-03
    x, t = rg.ones(3), rg.ones(3)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        assert dual is not x
        assert np.shares_memory(dual.numpy(), x.numpy())
        x.add_(1)
        assert dual._version == x._version
        primal, tangent = fw.unpack_dual(dual)
        assert tangent is t
        assert fw.unpack_dual(primal).tangent is None
        assert fw.unpack_dual(x).tangent is None
    same = fw.unpack_dual(x)
    assert same.primal is x
    assert same.tangent is None


def test_what_cannot_be_dual() -> None:  # FW-02
    ones, ints = rg.ones(2), rg.ones(2, dtype=rg.int64)
    with pytest.raises(RuntimeError, match="no level exists"):
        fw.make_dual(ones, ones)
    with fw.dual_level():
        with pytest.raises(ValueError, match="Expected primal to be floating point"):
            fw.make_dual(ints, ones)
        with pytest.raises(ValueError, match="Expected tangent to be floating point"):
            fw.make_dual(ones, ints)
        with pytest.raises(RuntimeError, match="has a different size"):
            fw.make_dual(ones, rg.ones(3))
        with pytest.raises(TypeError, match="got list"):
            fw.make_dual([1.0], ones)
        with pytest.raises(TypeError, match="got int"):
            fw.unpack_dual(3)
        with pytest.raises(RuntimeError, match="not open"):
            fw.make_dual(ones, ones, level=1)
        dual = fw.make_dual(ones, ones)
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            fw.make_dual(dual, ones)
        with pytest.raises(RuntimeError, match="itself has a forward gradient"):
            fw.make_dual(ones, dual)


def test_tangents_end_with_their_level() -> None:  # FW-04
    with fw.dual_level():
        dual = fw.make_dual(rg.ones(2), rg.ones(2))
    assert fw.unpack_dual(dual).tangent is None
    with fw.dual_level():
        assert fw.unpack_dual(dual).tangent is None


def test_detaching_drops_the_tangent_and_repr_shows_it() -> None:  # FW-05
    with fw.dual_level():
        dual = fw.make_dual(rg.ones(2), rg.ones(2))
        assert "tangent=tensor([1., 1.])" in repr(dual)
        assert fw.unpack_dual(dual.detach()).tangent is None
        product = dual * 1
        product.detach_()
        assert fw.unpack_dual(product).tangent is None
    assert "tangent" not in repr(dual)


def test_making_and_unpacking_is_differentiable_in_both() -> None:  # FW-05
    x, t = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    with fw.dual_level():
        primal, tangent = fw.unpack_dual(fw.make_dual(x, t))
        (primal * 2 + tangent * 3).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert t.grad.tolist() == [3.0, 3.0]


def test_a_backward_in_a_level_leaves_plain_gradients() -> None:
    x = rg.ones(2, requires_grad=True)
    with fw.dual_level():
        cube = fw.make_dual(x, rg.tensor([1.0, 2.0])) ** 3
        cube.retain_grad()
        cube.sum().backward(retain_graph=True)
        cube.sum().backward()
        assert fw.unpack_dual(x.grad).tangent is None
        assert fw.unpack_dual(cube.grad).tangent is None
    assert x.grad.tolist() == [6.0, 6.0]
