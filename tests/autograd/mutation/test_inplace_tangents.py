"""In-place changes under forward mode (FW-14)."""

# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

import raygrad as rg
import raygrad.autograd.forward_ad as fw


def test_a_change_in_place_changes_the_tangent_in_place() -> None:
    with fw.dual_level():
        given = rg.full((3,), 2.0)
        dual = fw.make_dual(rg.ones(3), given)
        dual.mul_(2)
        assert fw.unpack_dual(dual).tangent is given
        assert given.tolist() == [4.0, 4.0, 4.0]


def test_a_change_of_a_view_reaches_the_tangent_of_its_base() -> None:
    with fw.dual_level():
        dual = fw.make_dual(rg.ones(3), rg.ones(3))
        dual[:2].mul_(3)
        assert fw.unpack_dual(dual).tangent.tolist() == [3.0, 3.0, 1.0]


def test_a_dual_written_into_a_view_gives_the_base_a_tangent() -> None:
    with fw.dual_level():
        base = rg.zeros(4)
        before = base[:2]
        base[1:3].copy_(fw.make_dual(rg.ones(2), rg.full((2,), 5.0)))
        assert fw.unpack_dual(base).tangent.tolist() == [0.0, 5.0, 5.0, 0.0]
        assert fw.unpack_dual(before).tangent.tolist() == [0.0, 5.0]


def test_neither_what_a_dual_was_made_of_nor_a_detached_alias_gets_a_tangent() -> None:
    with fw.dual_level():
        primal = rg.ones(2)
        dual = fw.make_dual(primal, rg.ones(2))
        alias = dual.detach()
        dual.mul_(3)
        assert primal.tolist() == [3.0, 3.0]
        assert fw.unpack_dual(primal).tangent is None
        assert fw.unpack_dual(alias).tangent is None


def test_a_constant_written_into_a_dual_takes_its_tangent_there() -> None:
    with fw.dual_level():
        dual = fw.make_dual(rg.ones(2), rg.ones(2))
        dual[0] = 5.0
        assert fw.unpack_dual(dual).tangent.tolist() == [0.0, 1.0]


def test_a_tangent_that_a_node_keeps_may_be_overwritten() -> None:
    factor = rg.tensor([3.0, 4.0], requires_grad=True)
    with fw.dual_level():
        dual = fw.make_dual(rg.ones(2), rg.tensor([5.0, 6.0]))
        dual.mul_(factor)
        fw.unpack_dual(dual).tangent.sum().backward()
    assert factor.grad.tolist() == [5.0, 6.0]
