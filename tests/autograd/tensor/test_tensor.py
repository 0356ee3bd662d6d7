"""Tensors: identity, flags, gradients, the ways in and out (EN-28 to EN-35)."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import raygrad as rg


def vector(T: Any, *values, requires_grad=True, dtype=None) -> Any:
    return T.tensor(list(values), dtype=dtype or T.float64, requires_grad=requires_grad)


# ---- .grad ----------------------------------------------------------------------------------------------------------


def test_en_28_assignment_is_checked(T: Any):
    x = vector(T, 1, 2)
    with pytest.raises(TypeError):
        x.grad = [1.0, 2.0]
    for wrong in (vector(T, 1, 2, 3), vector(T, 1, 2, dtype=T.float32), x):
        with pytest.raises(RuntimeError):
            x.grad = wrong
    given = vector(T, 3, 4, requires_grad=False)
    x.grad = given
    assert x.grad is given
    (x * 2).sum().backward()
    assert given.tolist() == [5, 6]
    x.grad = None
    assert x.grad is None
    x.grad = given
    del x.grad
    assert x.grad is None


def test_en_28_reading_it_on_a_non_leaf_warns(T: Any):
    y = vector(T, 1) * 2
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is None
        assert vector(T, 1).grad is None
        assert vector(T, 1, requires_grad=False).grad is None


def test_gradients_that_may_not_be_written_to_are_replaced():
    x: Any = vector(rg, 1, 2)
    frozen = np.array([1.0, 2.0])
    frozen.flags.writeable = False
    x.grad = rg.Tensor.made(frozen)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3, 4]
    assert frozen.tolist() == [1, 2]


# ---- flags ----------------------------------------------------------------------------------------------------------


def test_en_29_requires_grad(T: Any):
    x = vector(T, 1, requires_grad=False)
    assert x.requires_grad_() is x
    assert x.requires_grad
    x.requires_grad = False
    assert not x.requires_grad
    for dtype in (T.int64, T.bool):
        with pytest.raises(RuntimeError, match="floating point"):
            T.ones(2, dtype=dtype).requires_grad_()
    y = vector(T, 1) * 2
    for value in (True, False):
        with pytest.raises(RuntimeError, match="leaf variables"):
            y.requires_grad = value
    with pytest.raises(RuntimeError, match="leaf variables"):
        y.requires_grad_(False)
    assert y.requires_grad_() is y


def test_leaves(T: Any):
    x = vector(T, 1)
    assert x.is_leaf
    assert not (x * 2).is_leaf
    assert (x * 2).detach().is_leaf
    assert (vector(T, 1, requires_grad=False) * 2).is_leaf


def test_en_31_retain_grad(T: Any):
    x = vector(T, 1)
    x.retain_grad()
    assert not x.retains_grad
    with pytest.raises(RuntimeError, match="retain_grad"):
        vector(T, 1, requires_grad=False).retain_grad()
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    assert y.retains_grad
    (x * 3).sum().backward()
    assert y.grad is None


# ---- arrays ---------------------------------------------------------------------------------------------------------


def test_en_33_the_raw_array_of_a_tensor_that_requires_grad_is_refused(T: Any):
    x = vector(T, 1, 2)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        x.numpy()
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        np.asarray(x)
    assert x.detach().numpy().tolist() == [1, 2]
    with T.no_grad():
        assert x.numpy().tolist() == [1, 2]


def test_the_array_shares_the_tensors_memory(T: Any):
    x = vector(T, 1, 2, requires_grad=False)
    x.numpy()[0] = 5
    assert x.tolist() == [5, 2]
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    assert np.from_dlpack(x).tolist() == [5, 2]
    with pytest.raises(BufferError):
        vector(T, 1).__dlpack__()


def test_numbers(T: Any):
    x = vector(T, 2.5, requires_grad=False)
    assert (x.item(), float(x), int(x), bool(x), complex(x)) == (2.5, 2.5, 2, True, 2.5 + 0j)
    assert [1, 2, 3][T.tensor(1)] == 2
    assert len(vector(T, 1, 2)) == 2
    for wrong in (lambda: vector(T, 1, 2).item(), lambda: bool(vector(T, 1, 2))):
        with pytest.raises(RuntimeError):
            wrong()
    for wrong in (lambda: len(T.tensor(1.0)), lambda: [1][T.tensor(0.0)]):
        with pytest.raises(TypeError):
            wrong()


# ---- copies ---------------------------------------------------------------------------------------------------------


def test_en_34_a_leaf_can_be_copied_deeply_but_no_other(T: Any):
    x = vector(T, 1, 2)
    (x * 3).sum().backward()
    twin = copy.deepcopy({"x": x, "again": x})
    assert twin["x"] is twin["again"]
    assert twin["x"].requires_grad
    assert twin["x"].grad.tolist() == [3, 3]
    with T.no_grad():
        twin["x"].add_(1)
        twin["x"].grad.add_(1)
    assert x.tolist() == [1, 2]
    assert x.grad.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(x * 2)


def test_en_34_a_leaf_can_be_pickled_but_no_other():
    x = pickle.loads(pickle.dumps(vector(rg, 1, 2)))
    assert x.requires_grad
    assert x.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match=r"tensor\.detach\(\)"):
        pickle.dumps(x * 2)


def test_en_35_detach_shares_memory_and_version_but_no_history(T: Any):
    x = vector(T, 1, 2)
    y = x * 1
    z = y.detach()
    assert not z.requires_grad
    assert z.grad_fn is None
    z.add_(1)
    assert y.tolist() == [2, 3]
    square = (y * y).sum()
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.backward()


def test_en_35_detaching_in_place(T: Any):
    y = vector(T, 1) * 2
    assert y.detach_() is y
    assert y.is_leaf
    assert not y.requires_grad
    x = vector(T, 1, 2) * 1
    with pytest.raises(RuntimeError, match="detach"):
        x.view(2, 1).detach_()


def test_data_shares_memory_but_no_version(T: Any):
    y = vector(T, 1, 2) * 1
    square = y * y
    y.data.add_(1)
    assert y.tolist() == [2, 3]
    square.sum().backward()
    x = vector(T, 1, 2)
    x.data = vector(T, 7, 8, requires_grad=False)
    assert x.tolist() == [7, 8]
    assert x.requires_grad


# ---- identity and printing ------------------------------------------------------------------------------------------


def test_tensors_are_hashed_by_identity(T: Any):
    x, twin = vector(T, 1), vector(T, 1)
    assert {x: "x", twin: "twin"}[x] == "x"
    assert len({x, twin, x}) == 2


def test_printing_shows_values_and_place_in_the_graph(T: Any):
    x = T.tensor([1.0, 2.5])
    assert repr(x).startswith("tensor([1.")
    x.requires_grad_()
    assert repr(x).endswith("requires_grad=True)")
    assert "grad_fn=<MulBackward0>" in repr(x * 2)
    assert "float64" in repr(vector(T, 1))
    assert f"{T.tensor(1.23456):.2f}" == "1.23"
    assert f"{x}" == str(x)


def test_a_tensor_can_be_awaited():
    async def main():
        x = vector(rg, 1)
        assert await x is x

    asyncio.run(main())


def test_a_leaf_and_its_accumulator_are_no_cycle():
    gc.disable()
    try:
        x = vector(rg, 1)
        edge = x.edge()
        assert x.edge()[0] is edge[0]
        alive = weakref.ref(x)
        del x
        assert alive() is not None
        del edge
        assert alive() is None
    finally:
        gc.enable()


def test_the_axis_order_of_a_leaf_is_that_of_its_memory():
    assert rg.tensor(np.ones((2, 3))).axis_order() == (0, 1)
    assert rg.from_numpy(np.asfortranarray(np.ones((2, 3)))).axis_order() == (1, 0)
    assert rg.from_numpy(np.ones((2, 3, 4)).transpose(1, 2, 0)).axis_order() == (2, 0, 1)
