"""NumPy's functions on tensors: ops where there is one, else arrays that need no gradient."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.methods.numpy_functions import _UFUNCS


def test_numpy_functions_differentiate():
    x = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    np.multiply(np.sin(x), np.array([1.0, 2.0])).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([1.0, 2.0]) * [1, 2])


def test_arrays_on_the_left():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    assert (np.ones(2) + x).requires_grad
    assert (np.ones(2) + x).dtype == rg.float64
    assert (x + np.ones(2)).tolist() == [2, 3]
    assert (np.float64(2) * x).dtype == rg.float32
    assert (np.ones((2, 2), np.float32) @ x).tolist() == [3, 3]
    assert (np.array([1.0, 3.0]) > x).tolist() == [False, True]


FOR_FLOATS = (np.hypot, np.logaddexp)
REFUSES_BOOLS = (
    *(np.absolute, np.ceil, np.floor, np.floor_divide, np.fmod, np.matmul, np.power, np.remainder, np.rint, np.trunc),
    *FOR_FLOATS,
)


def test_each_numpy_function_gives_what_numpy_gives():
    for ufunc in _UFUNCS:
        kinds = [np.array([0.3, 0.6]), np.array([3, 5]), np.array([True, True])]
        for values in kinds:
            arguments = [values] * ufunc.nin
            if ufunc is np.arccosh:
                arguments = [values + 1.5]
            try:
                with np.errstate(all="ignore"):
                    want = ufunc(*[a[:, None] * a if ufunc is np.matmul else a for a in arguments])
            except TypeError:
                continue
            if (values.dtype == bool and ufunc in REFUSES_BOOLS) or (values.dtype.kind == "i" and ufunc in FOR_FLOATS):
                with pytest.raises(NotImplementedError, match="not implemented for"):
                    ufunc(*[rg.tensor(a) for a in arguments])
                continue
            got = ufunc(*[rg.tensor(a[:, None] * a if ufunc is np.matmul else a) for a in arguments])
            if got.dtype == want.dtype:  # of integers and bools PyTorch makes other floats
                np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, err_msg=ufunc.__name__)


def test_numpy_functions_that_are_no_ops_need_no_gradient():
    x = rg.tensor([8.0, 27.0])
    assert np.cbrt(x).tolist() == pytest.approx([2, 3])
    parts = np.modf(rg.tensor([1.5]))
    assert [part.item() for part in parts] == [0.5, 1.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        np.cbrt(x.requires_grad_())


def test_numpy_reductions_and_out_are_refused():
    with pytest.raises(TypeError):
        np.add(rg.ones(2), 1, out=np.zeros(2))
    with pytest.raises(TypeError):
        np.add.reduce(rg.ones(2))
