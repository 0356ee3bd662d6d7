"""`Size`: shapes as users see them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import Function


def test_a_shape_is_a_tuple_with_a_count():
    shape = rg.zeros(2, 3, 4).shape
    assert type(shape) is rg.Size
    assert shape == (2, 3, 4)
    assert hash(shape) == hash((2, 3, 4))
    counts: dict[tuple[int, ...], int] = {(2, 3, 4): 1}
    assert counts[shape] == 1
    assert shape.numel() == 24
    assert rg.zeros(()).shape.numel() == 1
    assert rg.zeros(2, 3).size().numel() == 6
    assert str(rg.zeros(2, 3).shape) == "(2, 3)"


def test_what_is_made_of_a_size_is_one():
    shape, one = rg.Size([2, 3, 4]), (5,)
    for made, expected in (
        (shape[1:], (3, 4)),
        (shape + one, (2, 3, 4, 5)),
        (one + shape, (5, 2, 3, 4)),
        (shape[:1] * 2, (2, 2)),
        (2 * shape[:1], (2, 2)),
    ):
        assert type(made) is rg.Size
        assert made == expected
    assert type(shape[0]) is int
    with pytest.raises(TypeError):
        _ = shape + list(one)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda size: pickle.loads(pickle.dumps(size))])
def test_copies_and_pickles(copied: Any):
    made = copied(rg.Size([2, 3]))
    assert made == (2, 3)
    assert made.numel() == 6


def test_pending_and_batched_tensors_have_one():
    with rg.Session("local"):
        assert (rg.zeros(2, 3) + 1).shape.numel() == 6
    counts: list[int] = []

    def counted(x: Any) -> Any:
        counts.append(x.shape.numel())
        return x

    rg.vmap(counted)(rg.zeros(5, 2, 3))
    assert counts == [6]


class Reshaped(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, shape: Any) -> Any:
        ctx.before, ctx.after = x.shape, shape
        return x.reshape(shape)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        assert ctx.before.numel() == ctx.after.numel()
        return grad.reshape(ctx.before) * ctx.before.numel(), None


def test_functions_in_sessions_take_and_keep_them():
    x = rg.tensor(np.ones((2, 3)), requires_grad=True)
    with rg.Session("local", workers=2) as session:
        for _ in range(3):
            Reshaped.apply(x, x.T.shape).sum().backward()
        shape = x.shape
        step = session.compile(lambda t: (t.reshape(shape[::-1]) * 2).sum())
        assert step(x.detach()).item() == step(x.detach()).item() == 12.0
        assert x.grad is not None
        assert x.grad.numpy().tolist() == np.full((2, 3), 18.0).tolist()


def test_files_hold_them(tmp_path: Any):
    rg.save({"shape": rg.zeros(2, 3).shape}, tmp_path / "a.rg")
    found = rg.load(tmp_path / "a.rg")["shape"]
    assert found == (2, 3)
    assert found.numel() == 6
