"""View methods in place: the tensor gets another shape of its memory, and what shares that keeps its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import raygrad as rg

LIBRARIES = [
    pytest.param("raygrad", id="raygrad"),
    pytest.param("torch", id="torch", marks=pytest.mark.oracle),
]


@pytest.fixture(params=LIBRARIES)
def T(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def rows(T: Any, requires_grad: bool = False) -> Any:
    return T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=requires_grad)


def test_the_tensor_itself_is_returned_with_its_memory_and_a_further_version(T: Any) -> None:
    x = rows(T)
    assert x.transpose_(0, 1) is x
    assert (tuple(x.shape), x.stride(), x._version) == ((3, 2), (1, 3), 1)


def test_a_view_of_the_memory_keeps_its_shape_and_both_see_changes(T: Any) -> None:
    x = rows(T)
    flat, alias = x.view(6), x.detach()
    x.t_()
    flat[1] = 20.0
    x[2, 1] = 60.0
    assert x.tolist() == [[1, 4], [20, 5], [3, 60]]
    assert alias.tolist() == [[1, 20, 3], [4, 5, 60]]


def test_gradients_flow_through_it(T: Any) -> None:
    leaf = rows(T, True)
    x = leaf * 2
    x.unsqueeze_(0).squeeze_(0).t_()
    (x * T.tensor([1.0, 10.0])).sum().backward()
    assert leaf.grad.tolist() == [[2, 2, 2], [20, 20, 20]]


@pytest.mark.parametrize("first", ["the view", "the tensor"])
def test_gradients_flow_through_a_later_change_of_what_shares_its_memory(T: Any, first: str) -> None:
    leaf = rows(T, True)
    x = leaf * 1
    view = x[0]
    x.t_()
    if first == "the view":
        view.mul_(3)
        x.mul_(2)
    else:
        x.mul_(2)
        view.mul_(3)
    (x.sum() + 10 * view.sum()).backward()
    assert leaf.grad.tolist() == [[66, 66, 66], [2, 2, 2]]


def test_of_a_view_the_base_keeps_its_shape_and_has_its_changes(T: Any) -> None:
    leaf = rows(T, True)
    base = leaf * 1
    part = base[:, :2]
    part.t_().mul_(T.tensor([10.0, 100.0]))
    assert base.tolist() == [[10, 20, 3], [400, 500, 6]]
    base.sum().backward()
    assert leaf.grad.tolist() == [[10, 10, 1], [100, 100, 1]]


@pytest.mark.parametrize(
    "change", [lambda leaf: leaf.t_(), lambda leaf: leaf[0].unsqueeze_(0)], ids=["a leaf", "a view of a leaf"]
)
def test_a_leaf_that_requires_grad_keeps_its_shape(T: Any, change: Callable[[Any], Any]) -> None:
    with pytest.raises(RuntimeError, match="leaf"):
        change(rows(T, True))


def test_a_leaf_changes_its_shape_without_gradients_and_gets_one_of_that(T: Any) -> None:
    leaf = rows(T, True)
    with T.no_grad():
        leaf.t_()
    (leaf * 2).sum().backward()
    assert leaf.is_leaf
    assert tuple(leaf.grad.shape) == (3, 2)


def test_a_value_that_was_saved_before_is_stale(T: Any) -> None:
    x = rows(T, True) * 1
    y = x * x
    x.t_()
    with pytest.raises(RuntimeError, match="inplace operation"):
        y.sum().backward()


def test_tangents_get_the_shape_too(T: Any) -> None:
    ad = T.autograd.forward_ad
    with ad.dual_level():
        x = ad.make_dual(rows(T), rows(T) * 2)
        x.t_()
        assert ad.unpack_dual(x).tangent.tolist() == [[2, 8], [4, 10], [6, 12]]


def test_in_a_session_as_eagerly() -> None:
    def run() -> list[Any]:
        leaf = rows(rg, True)
        x = leaf * 1
        view = x[0]
        x.t_()
        view.mul_(3)
        alone = (leaf * 2).t_().unsqueeze_(0)
        ((x * x).sum() + alone.sum()).backward()
        return [x.tolist(), view.tolist(), alone.tolist(), leaf.grad.tolist()]

    with rg.Session():
        inside = run()
    assert inside == run()


def test_under_vmap_each_example_gets_the_shape(T: Any) -> None:
    def turned(x: Any) -> Any:
        return (x * 1).t_()

    assert T.vmap(turned)(T.stack([rows(T), rows(T) * 2])).tolist()[1] == [[2, 8], [4, 10], [6, 12]]
