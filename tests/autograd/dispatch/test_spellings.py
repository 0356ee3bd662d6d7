"""NumPy's spellings of arguments, in functions and methods, and the errors for names that are none."""

# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import raygrad as rg

DATA = np.array([[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]])

CALLS: dict[str, Any] = {
    "sum": lambda T, x: T.sum(x, axis=0, keepdims=True),
    "sum-of-x": lambda T, x: T.sum(x=x, axis=1),
    "mean-method": lambda T, x: x.mean(axis=(0, 1), keepdims=True),
    "max": lambda T, x: T.max(x, axis=1).values,
    "max-method": lambda T, x: x.max(axis=1, keepdims=True)[1],
    "required": lambda T, x: T.cumsum(x, axis=1) + x.cumsum(axis=0),
    "mixed": lambda T, x: T.cumprod(a=x, dim=1),
    "unary": lambda T, x: T.sin(x=x) + T.exp(a=x),
    "binary": lambda T, x: T.atan2(x1=x, x2=x * 2) + T.add(x1=x, x2=x, alpha=3),
    "keyword-alone": lambda T, x: T.std(x, axis=1, keepdims=True, correction=0),
    "squeeze": lambda T, x: x.unsqueeze(axis=0).squeeze(axis=0),
    "sort": lambda T, x: T.sort(x, axis=0)[0] + x.sort(axis=1)[0],
    "index_select": lambda T, x: T.index_select(x, axis=1, index=T.tensor([0, 2])),
    "cat": lambda T, x: T.unbind(x, axis=1)[0],
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_numpys_names_is_pytorchs(name: str):
    torch = pytest.importorskip("torch")
    got, want = CALLS[name](rg, rg.tensor(DATA)), CALLS[name](torch, torch.tensor(DATA))
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_a_session_records_such_a_call(name: str):
    eager = CALLS[name](rg, rg.tensor(DATA)).numpy()
    with rg.Session():
        np.testing.assert_array_equal(CALLS[name](rg, rg.tensor(DATA)).numpy(), eager)


def test_gradients_flow_through_it():
    x = rg.tensor(DATA, requires_grad=True)
    rg.prod(x, axis=1).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad[0].numpy(), [15.0, 3.0, 5.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: rg.sum(x, 0, axis=1), "got the argument 'dim' twice: also as 'axis'"),
        (lambda x: rg.sin(x, x=x), "got the argument 'input' twice"),
        (lambda x: rg.sum(x, dims=0), "unexpected keyword argument 'dims'; did you mean 'dim'"),
        (lambda x: x.sum(axes=0), "unexpected keyword argument 'axes'"),
        (lambda x: rg.sin(x, axis=0), "unexpected keyword argument 'axis'"),
        (lambda x: rg.cumsum(x), "missing 1 required positional argument: 'dim'"),
        (lambda x: rg.cumsum(dim=0), "missing 1 required positional argument: 'input'"),
        (lambda x: x.cumsum(), "missing 1 required positional argument: 'dim'"),
        (lambda x: rg.sin(), "missing 1 required positional argument: 'input'"),
        (lambda x: rg.atan2(x), "missing 1 required positional argument: 'other'"),
        (lambda x: rg.relu(x, inplace=True), "unexpected keyword argument 'inplace'"),
    ],
)
def test_errors_name_the_argument(call: Any, message: str):
    with pytest.raises(TypeError, match=message):
        call(rg.tensor(DATA))


def test_signatures_and_pickles_are_those_of_the_functions():
    assert list(inspect.signature(rg.sin).parameters) == ["input"]
    assert list(inspect.signature(rg.sum).parameters) == ["input", "dim", "keepdim", "dtype"]
    assert list(inspect.signature(rg.Tensor.sum).parameters) == ["input", "dim", "keepdim", "dtype"]
    for function in (rg.sin, rg.sum, rg.linalg.norm):
        assert pickle.loads(pickle.dumps(function)) is function
