"""How operands of different dtypes meet: as in PyTorch."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import itertools
from typing import Any

import pytest

import raygrad as rg

NAMES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()
PYTHON = {"a bool": True, "an integer": 3, "a float": 2.5, "a complex number": 1 + 2j}


def name_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@pytest.mark.oracle
@pytest.mark.parametrize("a", NAMES)
def test_pairs_of_tensors_meet_as_in_torch(a):
    torch = pytest.importorskip("torch")
    for b, shape_a, shape_b in itertools.product(NAMES, [(2,), ()], [(2,), ()]):
        if "float16" in (a, b) and "complex" in a + b:
            continue  # NumPy has no complex numbers that small
        made = [
            [T.ones(shape, dtype=getattr(T, name)) for name, shape in ((a, shape_a), (b, shape_b))] for T in (rg, torch)
        ]
        for op in ("mul", "add", "eq", "div"):
            (x, y), (u, v) = made
            assert name_of(getattr(x, op)(y)) == name_of(getattr(u, op)(v)), (op, a, b, shape_a, shape_b)


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_tensors_meet_numbers_as_in_torch(name):
    torch = pytest.importorskip("torch")
    for shape, (what, number) in itertools.product([(2,), ()], PYTHON.items()):
        if name == "float16" and isinstance(number, complex):
            continue
        x, u = (T.ones(shape, dtype=getattr(T, name)) for T in (rg, torch))
        for op in ("mul", "div", "eq", "__radd__"):
            assert name_of(getattr(x, op)(number)) == name_of(getattr(u, op)(number)), (op, name, shape, what)
        chosen = [T.where(T.tensor(True), t, number) for T, t in ((rg, x), (torch, u))]
        assert name_of(chosen[0]) == name_of(chosen[1])


@pytest.mark.oracle
@pytest.mark.parametrize("name", "exp sqrt sin sigmoid reciprocal log1p atan tanh erf".split())
def test_functions_make_floats_of_integers_as_in_torch(name):
    torch = pytest.importorskip("torch")
    for dtype in NAMES[:9]:
        x, u = (getattr(T, name)(T.ones(2, dtype=getattr(T, dtype))) for T in (rg, torch))
        assert name_of(x) == name_of(u)


def test_gradients_come_back_in_the_operands_dtype():
    x = rg.ones(2, requires_grad=True)
    y = rg.ones(2, dtype=rg.float64, requires_grad=True)
    (x * y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (rg.float32, rg.float64)


def test_a_number_wraps_into_a_small_integer():
    torch = pytest.importorskip("torch")
    for number in (300, -1):
        mine = rg.tensor([1], dtype=rg.uint8) + number
        assert mine.tolist() == (torch.tensor([1], dtype=torch.uint8) + number).tolist()
