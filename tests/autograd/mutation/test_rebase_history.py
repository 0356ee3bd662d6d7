"""Views after an in-place change: their node is made again when it is read, and not before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import raygrad as rg

LIBRARIES = ["raygrad", pytest.param("torch", marks=pytest.mark.oracle)]

UNASKED: dict[str, Callable[[Any], object]] = {
    "nothing": lambda view: None,
    "requires_grad": lambda view: view.requires_grad,
    "detach": lambda view: view.detach(),
    "value": lambda view: view.detach().tolist(),
    "shape": lambda view: view.shape,
    "version": lambda view: view._version,
    "a part changed": lambda view: view.__setitem__(slice(None, 1), 2.0),
    "changed elsewhere": lambda view: view.detach().add_(1.0),
}
ASKED: dict[str, Callable[[Any], object]] = {
    "grad_fn": lambda view: view.grad_fn,
    "is_leaf": lambda view: view.is_leaf,
    "used": lambda view: view * 2,
    "seen": lambda view: view[0],
    "changed": lambda view: view.add_(1.0),
    "shown": repr,
}


@pytest.fixture(params=LIBRARIES)
def T(request: pytest.FixtureRequest) -> Any:
    return rg if request.param == "raygrad" else pytest.importorskip("torch")


def changed(T: Any, recorded: bool) -> tuple[Any, Any, Any]:
    """Return a leaf, a tensor that was made of it and then changed, and a view that was made between."""
    x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    base = x * 3
    view = base[0]
    if recorded:
        base.mul_(2.0)
    else:
        with T.no_grad():
            base.mul_(2.0)
    return x, base, view


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("look", UNASKED)
def test_a_view_that_nobody_asked_is_cut_off_where_its_base_is_detached(T: Any, look: str, recorded: bool):
    x, base, view = changed(T, recorded)
    UNASKED[look](view)
    base.detach_()
    assert view.requires_grad
    view.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("look", ASKED)
def test_a_view_that_was_asked_keeps_its_place(T: Any, look: str, recorded: bool):
    x, base, view = changed(T, recorded)
    ASKED[look](view)
    base.detach_()
    view.sum().backward()
    assert x.grad.tolist() == [[6.0, 6.0] if recorded else [3.0, 3.0], [0.0, 0.0]]


@pytest.mark.parametrize("look", [*UNASKED, *ASKED])
def test_its_place_is_that_of_its_base_where_that_is_not_detached(T: Any, look: str):
    x, _, view = changed(T, True)
    (UNASKED | ASKED)[look](view)
    view.sum().backward()
    assert x.grad.tolist() == [[0.0 if look == "a part changed" else 6.0, 6.0], [0.0, 0.0]]


def test_the_next_change_begins_anew(T: Any):
    x, base, view = changed(T, True)
    assert view.grad_fn is not None
    base.mul_(2.0)
    base.detach_()
    view.sum().backward()
    assert x.grad is None


def test_a_view_without_a_node_of_its_own_requires_no_grad_where_its_base_does_not(T: Any):
    x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
    base = (x * 2).detach()
    view = base[:2]
    base.mul_(x)
    assert view.requires_grad
    base.detach_()
    assert not view.requires_grad
    assert view.grad_fn is None


def test_nor_does_it_in_a_session_where_its_base_is_an_alias():
    with rg.Session():
        x = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        base = (x * 2).detach()
        view = base[:2]
        base.mul_(x)
        assert view.requires_grad
        base.detach_()
        assert not view.requires_grad
        assert view.tolist() == [2.0, 8.0]


def test_it_is_a_tensor_as_any_other():
    _, _, view = changed(rg, True)
    assert type(view).__name__ == "Tensor"
    assert isinstance(view, rg.Tensor)
    assert view.grad_fn is not None
    assert type(view) is rg.Tensor


def test_a_view_of_what_was_a_constant_follows_each_change(T: Any):
    x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
    base = T.tensor([1.0, 1.0, 1.0])
    view = base[:2]
    base.mul_(x)
    assert view.grad_fn is not None
    base.mul_(x)
    view.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 0.0]


def test_a_view_of_a_leaf_that_is_a_view_of_a_constant_is_cut_off_by_a_change(T: Any):
    base = T.tensor([1.0, 2.0, 3.0])
    leaf = base[:2]
    leaf.requires_grad_()
    part = leaf[:1]
    (part * 2).sum().backward()
    assert leaf.grad.tolist() == [2.0, 0.0]
    with T.no_grad():
        base.mul_(2.0)
    (part * 2).sum().backward()
    assert leaf.grad.tolist() == [2.0, 0.0]
