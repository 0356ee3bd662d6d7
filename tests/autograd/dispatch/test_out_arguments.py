"""`out=`: results are written to the tensors that are given, as in PyTorch."""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import raygrad as rg


@pytest.fixture(params=["eager", "session"])
def where(request: Any) -> Any:
    if request.param == "eager":
        yield
    else:
        with rg.Session():
            yield


@pytest.mark.usefixtures("where")
class TestWritten:
    def test_the_tensor_is_returned_and_counts_as_changed(self) -> None:
        x, out = rg.tensor([0.5, 1.0]), rg.empty(2)
        assert rg.sin(x, out=out) is out
        assert out._version == 1
        assert np.allclose(out.numpy(), np.sin([0.5, 1.0]))

    def test_an_operand_may_be_the_tensor(self) -> None:
        x = rg.tensor([1.0, 2.0, 3.0])
        rg.cumsum(x, 0, out=x)
        assert x.tolist() == [1.0, 3.0, 6.0]

    def test_a_view_writes_to_its_base(self) -> None:
        base = rg.zeros(4)
        rg.add(rg.tensor([1.0, 2.0]), 1, out=base[2:])
        assert base.tolist() == [0.0, 0.0, 2.0, 3.0]

    def test_an_empty_tensor_gets_the_shape_and_another_one_warns(self) -> None:
        empty, full = rg.empty(0), rg.zeros(3)
        rg.matmul(rg.eye(2), rg.ones(2), out=empty)
        assert empty.tolist() == [1.0, 1.0]
        with pytest.warns(UserWarning, match=r"resized since it had shape \[3\].*shape \[2\]"):
            rg.exp(rg.zeros(2), out=full)
        assert full.tolist() == [1.0, 1.0]
        with pytest.raises(RuntimeError, match="is a view"):
            rg.exp(rg.zeros(2), out=rg.zeros(4)[1:])

    def test_several_results_go_to_a_tuple(self) -> None:
        values, indices = rg.empty(()), rg.empty((), dtype=rg.int64)
        found = rg.max(rg.tensor([1.0, 3.0]), 0, out=(values, indices))
        assert found.values is values
        assert found.indices is indices
        assert (values.item(), indices.item()) == (3.0, 1)
        for given in (values, (values,)):
            with pytest.raises(TypeError, match="must be a tuple of 2 Tensors"):
                rg.max(rg.tensor([1.0, 3.0]), 0, out=given)

    def test_a_saved_tensor_that_was_written_to_is_told(self) -> None:
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        z = (y * y).sum()
        with rg.no_grad():
            rg.sin(x, out=y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()

    def test_factories_take_the_dtype_of_the_tensor(self) -> None:
        out = rg.empty(3, dtype=rg.int64)
        for made in (
            rg.zeros(3, out=out),
            rg.full((3,), 4.0, out=out),
            rg.arange(3.0, out=out),
            rg.randperm(3, out=out),
        ):
            assert made is out
        assert sorted(out.tolist()) == [0, 1, 2]
        assert rg.linspace(0, 1, 3, out=rg.empty(3, dtype=rg.float64)).tolist() == [0.0, 0.5, 1.0]
        assert rg.eye(2, out=rg.empty(0), requires_grad=True).requires_grad
        with pytest.raises(RuntimeError, match=r"dtype .*float32 does not match dtype of out parameter"):
            rg.zeros(3, out=out, dtype=rg.float32)


def test_memory_of_numpy_is_written_to() -> None:
    array = np.zeros(2)
    rg.exp(rg.zeros(2, dtype=rg.float64), out=rg.from_numpy(array))
    assert array.tolist() == [1.0, 1.0]


def test_none_is_no_tensor_to_write_to() -> None:
    assert rg.exp(rg.zeros(2), out=None).tolist() == [1.0, 1.0]


def test_what_is_refused() -> None:
    leaf = rg.ones(2, requires_grad=True)
    for given in ({"input": leaf, "out": rg.empty(2)}, {"input": rg.ones(2), "out": leaf}):
        with pytest.raises(RuntimeError, match=r"sin\(\): functions with out=... arguments don't support automatic"):
            rg.sin(**given)
    with rg.no_grad():
        assert rg.sin(leaf, out=rg.empty(2)).requires_grad is False
    with pytest.raises(RuntimeError, match="result type .*float32 can't be cast to the desired output type .*int64"):
        rg.sin(rg.ones(2), out=rg.empty(2, dtype=rg.int64))
    with pytest.raises(TypeError, match="argument 'out' must be Tensor, not int"):
        rg.sin(rg.ones(2), out=cast("Any", 5))
    functions: list[Any] = [rg.real, rg.squeeze, rg.isfinite, rg.flatten]
    for function in functions:
        with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
            function(rg.ones(2), out=rg.empty(2))
    method: Any = rg.ones(2).sum
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        method(0, out=rg.empty(()))


def test_a_tensor_that_was_resized_is_no_alias_of_an_operand() -> None:
    x = rg.tensor([1.0, 2.0])
    out = rg.clamp(x, out=rg.empty(0), min=0.0)
    out += 1
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.oracle
def test_shapes_and_dtypes_as_in_torch() -> None:
    import torch

    def program(lib: Any) -> list[Any]:
        x, made = lib.tensor([[3.0, 1.0], [2.0, 4.0]]), []
        made.append(lib.sort(x, 1, out=(lib.empty(0), lib.empty(0, dtype=lib.int64)))[1])
        made.append(lib.eq(x, 2.0, out=lib.empty(2, 2)))
        made.append(lib.cat([x, x], 1, out=lib.empty(2, 4, dtype=lib.float64)))
        made.append(lib.linalg.inv(x, out=lib.empty(2, 2)))
        made.append(lib.fft.fft(x, out=lib.empty(0, dtype=lib.complex64)))
        made.append(lib.special.entr(x, out=lib.empty(2, 2)))
        return [(str(one.dtype).removeprefix("torch."), tuple(one.shape), one.tolist()) for one in made]

    for mine, theirs in zip(program(rg), program(torch), strict=True):
        assert mine[:2] == theirs[:2]
        assert np.allclose(mine[2], theirs[2], rtol=1e-5)
