"""Ops in a session that were applied before: the node is the one that the first application got."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.modes import state
from raygrad.autograd.dispatch.record_fast_path import repeat_recorded_op
from raygrad.autograd.registry.entries import UserKernel
from raygrad.errors import AutogradError


@pytest.fixture
def session() -> Iterator[rg.Session]:
    with rg.Session(workers=1) as session:
        yield session


def vector(*values: float, requires_grad: bool = True) -> Any:
    return rg.tensor(list(values), dtype=rg.float64, requires_grad=requires_grad)


def told(y: Any) -> Any:
    """Return what a tensor and its node show, beside who made the operands."""
    node = y.grad_fn
    return (
        y.shape,
        y.dtype,
        y.requires_grad,
        y.output_nr,
        None
        if node is None
        else (
            node.name(),
            [None if edge is None else edge[1] for edge in node._edges],
            node.needs_input_grad,
            node.inputs,
            tuple(node._metas),
            node.params,
            node.rule,
            [None if held is None else getattr(held, "shape", held) for held in node.saved_tensors],
            [None if version is None else version[1] for version in node.versions],
        ),
    )


OPS: list[Callable[[Any, Any], Any]] = [
    lambda x, w: x.sin(),
    lambda x, w: x.exp(),
    lambda x, w: x * w,
    lambda x, w: w * x,
    lambda x, w: x * x,
    lambda x, w: x * 2.0,
    lambda x, w: 2 - x,
    lambda x, w: x / w,
    lambda x, w: x**2.0,
    lambda x, w: x > w,
    lambda x, w: x.sum(),
    lambda x, w: x.sum(0, keepdim=True),
    lambda x, w: w.sin(),
    lambda x, w: rg.where(x > 1.5, x, w),
    lambda x, w: x.detach() * w,
]


@pytest.mark.parametrize("number", range(len(OPS)))
def test_node_of_an_op_that_was_applied_before_is_like_the_first(session: rg.Session, number: int) -> None:
    first, second = (OPS[number](vector(1, 2), vector(3, 4, requires_grad=False)) for _ in range(2))
    assert told(first) == told(second)
    assert first.detach().numpy().tobytes() == second.detach().numpy().tobytes()


def again(op: Any, *operands: Any, params: tuple[Any, ...] = ()) -> Any:
    return repeat_recorded_op(state.here, op, operands, params)


def test_what_is_not_as_nearly_always_is_left_to_dispatch(session: rg.Session) -> None:
    x = vector(1, 2).exp()
    op = x.sin().grad_fn.op
    assert again(op, x) is not None
    assert again(op, vector(1, 2)) is not None
    assert again(op, rg.tensor([1, 2])) is None  # an integer becomes a floating number
    assert again(op, vector(1, 2, 3)) is None  # not known yet
    multiply = (x * x).grad_fn.op
    assert again(multiply, x, x) is not None
    assert again(multiply, x, x.to(rg.float32)) is None
    assert again(multiply, x, np.ones(2)) is None
    assert again(multiply, x, True) is None
    view = x.reshape(2, 1).grad_fn.op
    assert again(view, x, params=((2, 1),)) is None


def test_rare_modes_are_left_to_dispatch(session: rg.Session) -> None:
    x = vector(1, 2)
    x.sin()
    assert state.here.only_recorder is session._recorder
    with rg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert state.here.only_recorder is None
    with rg.inference_mode():
        assert x.sin().is_inference()
    with rg.no_grad():
        assert x.sin().grad_fn is None
    assert x.sin().grad_fn is not None


def test_ops_of_a_user_are_asked_for_each_time(session: rg.Session) -> None:
    x = vector(1, 2)
    before = x.sin()
    op = before.grad_fn.op
    op.add_user_kernel("cpu", "float64", UserKernel(lambda a: np.sin(a) + 1.0, False), True)
    try:
        assert again(op, x) is None
        after = x.sin()
    finally:
        op.remove_user_entries()
    assert again(op, x) is not None
    assert (after - before).tolist() == [1.0, 1.0]


def test_cx_13_what_was_saved_is_checked_for_changes(session: rg.Session) -> None:
    for _ in range(2):
        x = vector(1, 2)
        y = x * 1.0
        z = y.sin()
        y.add_(1.0)
        with pytest.raises(AutogradError, match="modified by an inplace operation"):
            z.sum().backward()


def test_inference_tensors_are_not_saved(session: rg.Session) -> None:
    with rg.inference_mode():
        w = vector(1, 2, requires_grad=False) * 1.0
    x = vector(1, 2)
    assert (x * vector(1, 2, requires_grad=False)).requires_grad
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        _ = x * w


def exchanged() -> Any:
    x = vector(1, 2)
    y = x * 1.0
    z = y.sin()
    y.data = vector(3, 4).detach()
    z.sum().backward()
    assert x.grad is not None
    return x.grad.tolist()


def test_cx_14_derivative_goes_by_what_data_were_exchanged_for(session: rg.Session) -> None:
    with_session = [exchanged() for _ in range(3)]
    before, state.recorder = state.recorder, None
    try:
        eagerly = exchanged()
    finally:
        state.recorder = before
    assert with_session == [eagerly] * 3
