"""The nodes of tensors whose memory was changed in part (`autograd/mutation/copy_slices.py`)."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg

LIBRARIES = ["raygrad", pytest.param("torch", marks=pytest.mark.oracle)]


@pytest.fixture(params=LIBRARIES)
def T(request: pytest.FixtureRequest) -> Any:
    return rg if request.param == "raygrad" else pytest.importorskip("torch")


def nothing(T: Any) -> Any:
    class Nothing(T.autograd.Function):
        """Its gradient is undefined."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> None:
            return None

    return Nothing.apply


def test_the_node_of_a_change_in_part_is_freed_although_it_saves_nothing(T: Any):
    y = T.ones(3, requires_grad=True) * 1
    y[0] = 2.0
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()


def test_where_no_gradient_arrives_it_may_have_been_freed(T: Any):
    x = T.ones(3, requires_grad=True)
    y = x.clone()
    y[0] = 2.0
    first, second = nothing(T)(y), nothing(T)(y)
    first.sum().backward()
    second.sum().backward()
    assert x.grad is None


def test_an_empty_view_that_was_made_again_passes_zeros_without_history(T: Any):
    x = T.ones(2, requires_grad=True)
    y = x * 2
    view = y[0:0]
    y.mul_(2)
    (gradient,) = T.autograd.grad((view * view).sum(), x, create_graph=True)
    assert gradient.tolist() == [0.0, 0.0]
    assert not gradient.requires_grad


def test_en_08_zeros_of_what_was_overwritten_through_a_view_are_differentiable(T: Any) -> None:
    x = T.tensor([2.0, 3.0], requires_grad=True)
    weight = T.tensor([5.0, 7.0], requires_grad=True)
    base = x * 1
    base.view((2, 1)).zero_()
    (gradient,) = T.autograd.grad((base * weight).sum(), x, create_graph=True)
    assert gradient.tolist() == [0, 0]
    assert gradient.requires_grad
    (second,) = T.autograd.grad(gradient.sum(), weight)
    assert second.tolist() == [0, 0]


def test_en_08_zeros_of_what_was_overwritten_itself_are_not(T: Any) -> None:
    x = T.tensor([2.0, 3.0], requires_grad=True)
    weight = T.tensor([5.0, 7.0], requires_grad=True)
    base = x * 1
    base.zero_()
    (gradient,) = T.autograd.grad((base * weight).sum(), x, create_graph=True)
    assert not gradient.requires_grad
