"""Arrays that Functions are given or capture lie in sessions as they do eagerly: strides, byte order (H1)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from . import array_programs as programs


def test_h1_arrays_keep_strides_and_byte_order(session: Any) -> None:
    with session:
        assert programs.differences(session) == []


@pytest.mark.parametrize("opened", [nullcontext, rg.Session, lambda: rg.Session(strict=True)])
def test_h1_a_tensor_over_an_expanded_array_is_one_to_forward(opened: Any) -> None:
    class Strides(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return rg.tensor(x.numpy().strides)

    with opened():
        assert Strides.apply(rg.from_numpy(np.broadcast_to(np.arange(3.0), (2, 3)))).tolist() == [0, 8]
        assert Strides.apply(rg.ones(2, dtype=rg.float64).expand(3, 2)).tolist() == [0, 8]


@pytest.mark.parametrize("opened", [nullcontext, rg.Session, lambda: rg.Session(strict=True)])
def test_arrays_of_structures_and_objects_are_arguments_and_outputs(opened: Any) -> None:
    class Sums(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, table: Any, names: Any) -> Any:
            ctx.table = table
            return x * table["weight"].sum(), table, names

        @staticmethod
        def backward(ctx: Any, grad: Any, *_: Any) -> Any:
            return grad * ctx.table["weight"][0], None, None

    table = np.array([(1, 2.0), (2, 5.0)], [("place", "<i4"), ("weight", ">f8")])
    names = np.array(["a", None, 3], object)
    with opened():
        x = rg.ones(2, dtype=rg.float64, requires_grad=True)
        y, same, kept = Sums.apply(x, table, names)
        y.sum().item()
        y.sum().backward()
        assert y.tolist() == [7, 7]
        assert x.grad is not None
        assert x.grad.tolist() == [2, 2]
        assert same.dtype == table.dtype
        assert same.tolist() == table.tolist()
        assert kept.tolist() == names.tolist()


@pytest.mark.parametrize("opened", [nullcontext, rg.Session, lambda: rg.Session(strict=True)])
def test_arrays_of_derived_classes_keep_what_these_add(opened: Any) -> None:
    class Sums(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, array: Any) -> Any:
            ctx.array = array
            return x * float(array.sum())

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.array.sum(), None

    masked: Any = np.ma.array(np.arange(6.0), mask=[False, True, True, True, False, True])
    with opened():
        x = rg.ones(1, dtype=rg.float64, requires_grad=True)
        for array in (masked, masked[::2], masked[::-1], masked.data[::2], masked.astype(">f8")):
            y = Sums.apply(x, array)
            x.grad = None
            y.sum().backward()
            assert x.grad is not None
            assert y.item() == x.grad.item() == array.sum()


@pytest.mark.parametrize("opened", [nullcontext, rg.Session, lambda: rg.Session(strict=True)])
def test_h1_mapped_files_keep_strides(opened: Any, tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "data", np.float64, "w+", shape=(4, 6))[:, ::2]
    mapped[:] = 1.0

    class Strides(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, array: Any) -> Any:
            return x + rg.tensor([array.strides, mapped.strides, [array.sum(), mapped.sum()]])

    with opened():
        assert Strides.apply(rg.zeros(3, 2), mapped).tolist() == [[48, 16], [48, 16], [12, 12]]
