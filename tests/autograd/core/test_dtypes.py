"""Dtypes and type promotion, beside torch's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core import dtypes, type_promotion

NAMES = dtypes.known()
WITHOUT_COMPLEX32 = [("float16", "complex64"), ("float16", "complex128"), ("float16", 1j)]
"""torch answers complex32 here, which NumPy has not."""


def promoted(*args):
    return type_promotion.promote(*args).name


@pytest.mark.oracle
def test_promotion_of_two_tensors_is_torchs():
    torch = pytest.importorskip("torch")
    for a, b in itertools.product(NAMES, NAMES):
        expected = torch.promote_types(getattr(torch, a), getattr(torch, b))
        assert f"torch.{promoted([np.dtype(a), np.dtype(b)])}" == str(expected), (a, b)


@pytest.mark.oracle
def test_promotion_with_zero_dimensional_tensors_is_torchs():
    torch = pytest.importorskip("torch")
    for a, b in itertools.product(NAMES, NAMES):
        if (a, b) not in WITHOUT_COMPLEX32:
            vector, scalar = torch.zeros(2, dtype=getattr(torch, a)), torch.zeros((), dtype=getattr(torch, b))
            assert f"torch.{promoted([np.dtype(a)], [np.dtype(b)])}" == str(torch.result_type(vector, scalar)), (a, b)


@pytest.mark.oracle
@pytest.mark.parametrize("number", [True, 1, 1.0, 1j])
@pytest.mark.parametrize("shape", [(2,), ()])
def test_promotion_with_numbers_is_torchs(number, shape):
    torch = pytest.importorskip("torch")
    for name in NAMES:
        if (name, number) not in WITHOUT_COMPLEX32:
            expected = torch.result_type(torch.zeros(shape, dtype=getattr(torch, name)), number)
            groups = ([np.dtype(name)], []) if shape else ([], [np.dtype(name)])
            assert f"torch.{promoted(*groups, [number])}" == str(expected), name


def test_integers_never_widen_floating_operands():
    assert promoted([dtypes.int64, dtypes.float32]) == "float32"
    assert promoted([dtypes.float16, dtypes.int64]) == "float16"
    assert promoted([dtypes.int64], [dtypes.float64]) == "float64"
    assert promoted([dtypes.float32], [dtypes.float64]) == "float32"
    assert promoted([dtypes.float64], (), [1j]) == "complex128"
    assert promoted((), (), [2, True]) == "int64"


def test_nothing_cannot_be_promoted():
    with pytest.raises(TypeError, match="no operands"):
        type_promotion.promote([])


def test_numbers_have_the_dtypes_of_torch():
    assert [dtypes.of_number(v).name for v in (True, 1, 1.0, 1j, np.float64(1), np.int8(1), np.bool_(1))] == [
        "bool", "int64", "float32", "complex64", "float64", "int8", "bool",
    ]  # fmt: skip


def test_the_default_dtype_can_be_changed():
    assert dtypes.get_default_dtype() == np.float32
    try:
        dtypes.set_default_dtype("float64")
        assert dtypes.of_number(1.0) == np.float64
        assert dtypes.of_number(1j) == np.complex128
        assert dtypes.floating(dtypes.int64) == np.float64
    finally:
        dtypes.set_default_dtype(dtypes.float32)
    for wrong in (dtypes.int64, dtypes.complex64):
        with pytest.raises(TypeError, match="must be a floating dtype"):
            dtypes.set_default_dtype(wrong)


def test_names_and_types_mean_dtypes():
    for meant in ("float64", np.float64, float, np.dtype(np.float64)):
        assert dtypes.as_dtype(meant) is np.dtype(np.float64)
    assert dtypes.as_dtype(bool) == np.bool_
    assert dtypes.as_dtype(complex) == np.complex128


def test_floating_and_complex_dtypes_are_differentiable():
    assert {name for name in NAMES if dtypes.is_differentiable(np.dtype(name))} == {
        "float16", "float32", "float64", "complex64", "complex128",
    }  # fmt: skip
    assert dtypes.floating(dtypes.bool) == np.float32
    assert dtypes.floating(dtypes.float16) == np.float16


@pytest.mark.oracle
def test_questions_about_dtypes_are_answered_as_by_torch():
    torch = pytest.importorskip("torch")
    names = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()

    def answers(T, a, b):
        a, b = getattr(T, a), getattr(T, b)
        met = (T.promote_types(a, b), T.result_type(T.ones(2, dtype=a), T.ones((), dtype=b)))
        return [*(str(one).removeprefix("torch.") for one in met), T.can_cast(a, b)]

    for a in names:
        for b in names:
            if "float16" in (a, b) and "complex" in a + b:
                continue  # NumPy has no complex numbers that small
            assert answers(rg, a, b) == answers(torch, a, b), (a, b)
        for number in (1, 2.5, 1j) if a != "float16" else (1, 2.5):
            mine, theirs = (T.result_type(T.ones(2, dtype=getattr(T, a)), number) for T in (rg, torch))
            assert str(mine) == str(theirs).removeprefix("torch.")
    assert rg.finfo(rg.float32).eps == torch.finfo(torch.float32).eps
    assert rg.iinfo(rg.int8).max == 127
    assert (rg.pi, rg.e, rg.inf, rg.newaxis) == (torch.pi, torch.e, torch.inf, torch.newaxis)
    assert rg.nan != rg.nan
