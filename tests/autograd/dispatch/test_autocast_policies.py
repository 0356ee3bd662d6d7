"""What functions of the catalogue cast in a region of `autocast`: for each case of the tables, what PyTorch casts."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import ops
from raygrad.autograd.dispatch import autocast_policies
from raygrad.autograd.dispatch.autocast import autocast

from ..ops.cases import FAMILIES
from ..ops.check import Case, array_of, leaves, outputs_of, weighted

NARROW = {"float32": (np.float32, np.complex64), "float16": (np.float16, np.complex64)}

OTHER_PRECISION = {
    "pinv-square": "PyTorch's is made of a decomposition, in float32, and of a product, which is cast",
    **dict.fromkeys(("pinv[2, 3, 2]f", "pinv[2, 3]f", "pinv[3, 2]f", "pinv-hermitian", "pinv-atol"), "the same"),
}
"""Cases whose result has more precision here than in PyTorch, and why."""


def narrowed(case: Case, name: str) -> list[np.ndarray]:
    real, complex_ = NARROW[name]
    return [a.astype(real if a.dtype.kind == "f" else complex_) if a.dtype.kind in "fc" else a for a in case.inputs]


def dtypes_of(T: Any, case: Case, name: str, enabled: bool) -> list[str] | None:
    """The dtypes of the outputs; None if the library refuses the case."""
    tensors = [T.tensor(a) for a in narrowed(case, name)]
    with T.autocast("cpu", dtype=T.float16, enabled=enabled), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outputs = outputs_of(case.run(T, *tensors))
        except (RuntimeError, NotImplementedError, TypeError):  # it has no kernel for that dtype
            return None
    return [str(o.dtype).removeprefix("torch.") for o in outputs]


@pytest.mark.oracle
@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_region_changes_the_dtypes_that_it_changes_in_torch(family: str, name: str):
    torch = pytest.importorskip("torch")
    wrong: list[str] = []
    for case in FAMILIES[family]:
        if not case.oracle or case.name in OTHER_PRECISION:
            continue
        expected = dtypes_of(torch, case, name, True)
        if expected is None or expected == dtypes_of(torch, case, name, False):
            expected = dtypes_of(rg, case, name, False)
        if (got := dtypes_of(rg, case, name, True)) != expected:
            wrong.append(f"{case}: {got}, not {expected}")
    assert not wrong, "\n".join(wrong)


def values_and_gradients(T: Any, case: Case) -> list[np.ndarray]:
    tensors = leaves(T, narrowed(case, "float32"))
    with T.autocast("cpu", dtype=T.float16):
        outputs = outputs_of(case.run(T, *tensors))
    weighted(T, Case(case.name, lambda T: tuple(outputs), ()), ()).backward()
    return [array_of(t) for t in (*outputs, *(t.grad for t in tensors if t.grad is not None))]


CAST = "convolution einsum embedding linear matmul rectifiers statistics tensordot".split()
"""Families with functions that compute in the lower precision."""


@pytest.mark.oracle
@pytest.mark.parametrize("family", CAST)
def test_values_and_gradients_in_the_lower_precision_are_those_of_torch(family: str):
    torch = pytest.importorskip("torch")
    compared = 0
    for case in FAMILIES[family]:
        if case.oracle and case.order and (dtypes_of(torch, case, "float32", True) or [""])[0] == "float16":
            compared += 1
            for got, expected in zip(values_and_gradients(rg, case), values_and_gradients(torch, case), strict=True):
                assert got.dtype == expected.dtype, case
                scale = float(np.abs(expected).max(initial=0))
                np.testing.assert_allclose(got, expected, rtol=1e-2, atol=5e-3 * scale, err_msg=case.name)
    assert compared


def test_each_name_of_the_lists_is_a_function_that_is_offered():
    offered = {f.__name__: f for f in autocast_policies._governed.values()}
    assert set(offered) == set(autocast_policies.POLICIES)
    tables = (vars(ops), ops.FUNCTIONAL, ops.LINALG, ops.FFT)  # some names stand in two of them
    places = [*[place for table in tables for place in table.values()], offered["contract"]]
    assert not [name for name, f in offered.items() if all(f is not place for place in places)]


def test_a_function_that_casts_looks_like_the_one_that_does_not():
    for name, function in autocast_policies._governed.items():
        plain: Any = inspect.unwrap(function)
        assert inspect.signature(function) == inspect.signature(plain)
        assert (function.__name__, function.__doc__) == (plain.__name__, plain.__doc__)
        assert (function.__defaults__, function.__kwdefaults__) == (plain.__defaults__, plain.__kwdefaults__), name


def test_a_function_that_casts_is_pickled_by_name():
    for function in autocast_policies._governed.values():
        assert pickle.loads(pickle.dumps(function)) is function
    with pytest.raises(AttributeError, match="has no attribute 'sin'"):
        autocast_policies.sin  # noqa: B018


def test_two_functions_of_one_name_are_not_confused():
    def matmul(a: Any, b: Any) -> Any:
        return a

    with pytest.raises(ValueError, match="two functions called 'matmul'"):
        autocast_policies.with_autocast(matmul)


def test_arrays_numbers_and_wide_or_whole_numbers_are_not_cast():
    with autocast("cpu"):
        assert ops.matmul(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32)).dtype == np.float32
        for dtype in (rg.float64, rg.complex64, rg.int64):
            assert rg.matmul(rg.ones(2, 2, dtype=dtype), rg.ones(2, 2, dtype=dtype)).dtype == dtype
        with pytest.raises(RuntimeError, match="float64 != float16"):
            rg.mm(rg.ones(2, 2, dtype=rg.float64), rg.ones(2, 2))
        assert rg.addmm(rg.ones(2), rg.ones(2, 2), rg.ones(2, 2), beta=0.5).dtype == rg.float16


def test_keywords_and_lists_are_cast_like_positions():
    x, h = rg.ones(2, 2), rg.ones(2, 2, dtype=rg.float16)
    with autocast("cpu"):
        assert rg.matmul(input=x, other=x).dtype == rg.float16
        assert rg.nn.functional.linear(x, weight=x, bias=x[0]).dtype == rg.float16
        assert rg.cat((h, h)).dtype == rg.stack([h, h]).dtype == rg.float16
        assert rg.cat([h, x]).dtype == rg.stack([h, x]).dtype == rg.float32
        assert rg.cat([h, rg.ones(2, 2, dtype=rg.float64)]).dtype == rg.float64
        assert rg.index_copy(x, 0, rg.tensor([0]), h[:1]).dtype == rg.float32
        assert rg.nn.functional.mse_loss(h, target=h).dtype == rg.float32
        assert rg.linalg.multi_dot([x, x, x]).dtype == rg.float16


@pytest.mark.oracle
@pytest.mark.parametrize("p", [None, -2, "nuc", "fro", 1])
def test_a_condition_number_is_made_of_what_is_computed_in_single_precision(p: Any):
    torch = pytest.importorskip("torch")
    found: list[Any] = []
    for T in (rg, torch):
        matrix = T.tensor(np.array([[4, 1], [2, 3]], np.float16))
        with T.autocast("cpu", dtype=T.float16):
            found.append(array_of(T.linalg.cond(matrix, p)))
    assert found[0].dtype == found[1].dtype == np.float32
    np.testing.assert_allclose(*found, rtol=1e-3)


def test_borders_are_made_in_single_precision_where_they_are_in_torch():
    pad = rg.nn.functional.pad
    h = rg.ones(1, 1, 3, 3, dtype=rg.float16)
    with autocast("cpu"):
        assert pad(h, (1, 1), "replicate").dtype == pad(h, (1, 1, 1, 1), mode="reflect").dtype == rg.float32
        assert pad(h, (1, 1)).dtype == pad(h, (1, 1), "circular").dtype == rg.float16


def test_what_a_function_is_made_of_is_not_cast_again():
    x = rg.ones(2, 3)
    with autocast("cpu"):
        assert rg.cdist(x, x).dtype == rg.float32
        assert rg.dot(x[0], x[0]).dtype == rg.mv(x, x[0]).dtype == rg.inner(x[0], x[0]).dtype == rg.float32
        assert rg.inner(x, x).dtype == rg.chain_matmul(x.T, x, x.T).dtype == rg.float16
        assert rg.nn.functional.bilinear(x, x, rg.ones(1, 3, 3)).dtype == rg.float32


@pytest.mark.parametrize("create_graph", [False, True])
def test_derivatives_are_not_cast(create_graph: bool):
    def gradients() -> list[np.ndarray]:
        x, w = (rg.tensor(np.linspace(0, 1, 9, dtype=np.float32).reshape(3, 3), requires_grad=True) for _ in range(2))
        y = (x @ w).exp()
        with autocast("cpu", enabled=inside):
            found = rg.autograd.grad(y.sum(), [x, w], create_graph=create_graph)
        return [g.detach().numpy() for g in found]

    inside = False
    expected = gradients()
    inside = True
    for got, one in zip(gradients(), expected, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, one)
