"""Which kinds of dtype ops and functions take; against PyTorch, in `test_bools` and `test_complex_numbers`."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.ops.reduction import order_statistics
from raygrad.autograd.registry import dtype_constraints
from raygrad.autograd.registry.dtype_constraints import takes
from raygrad.errors import MissingKernel


@pytest.mark.parametrize(
    ("admits", "taken"),
    [
        (dtype_constraints.no_complex, "?bBhlefd"),
        (dtype_constraints.real_numbers, "bBhlefd"),
        (dtype_constraints.real_floats, "efd"),
        (dtype_constraints.no_bools, "bBhlefdFD"),
        (dtype_constraints.floats_alone, "efdFD"),
        (dtype_constraints.whole_numbers, "?bBhl"),
        (dtype_constraints.integers_alone, "bBhl"),
    ],
)
def test_a_check_admits_its_kinds_alone(admits: Any, taken: str) -> None:
    for letter in "?bBhlefdFD":
        if letter in taken:
            admits("f", (), np.dtype(letter))
        else:
            with pytest.raises(MissingKernel, match=f'"f" not implemented for {np.dtype(letter)}: '):
                admits("f", (), np.dtype(letter))


@pytest.mark.parametrize(
    ("admits", "dtype", "instead"),
    [
        (dtype_constraints.real_numbers, np.bool_, r"\.to\(raygrad\.int64\)"),
        (dtype_constraints.real_floats, np.bool_, r"\.to\(raygrad\.float32\)"),
        (dtype_constraints.real_floats, np.int64, r"\.to\(raygrad\.float32\)"),
        (dtype_constraints.no_complex, np.complex64, r"\.real, \.imag or \.abs\(\)"),
        (dtype_constraints.whole_numbers, np.float32, "integers and bools"),
        (dtype_constraints.integers_alone, np.float32, "integers$"),
    ],
)
def test_an_error_says_what_to_do_instead(admits: Any, dtype: Any, instead: str) -> None:
    with pytest.raises(MissingKernel, match=instead):
        admits("f", (), np.dtype(dtype))


def test_a_function_is_asked_for_its_first_arguments() -> None:
    @takes(dtype_constraints.no_complex, 2)
    def paired(a: Any, b: Any, c: Any = None, *, d: int = 1) -> Any:
        """What it does."""
        return a, b, c, d

    z = rg.tensor([1j])
    assert paired(1, 2.0, z, d=3) == (1, 2.0, z, 3)
    assert str(inspect.signature(paired)) == "(a: 'Any', b: 'Any', c: 'Any' = None, *, d: 'int' = 1) -> 'Any'"
    assert paired.__name__ == "paired"
    assert paired.__doc__ == "What it does."
    for given in ((z, 1), (1, z), (z.numpy(), 1)):
        with pytest.raises(MissingKernel, match='"paired" not implemented for complex64'):
            paired(*given)
    with pytest.raises(MissingKernel):
        paired(b=z, a=1)


def test_a_function_that_is_asked_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(order_statistics.median)) is order_statistics.median


def test_complex_numbers_are_compared_where_there_are_some() -> None:
    one, none = rg.ones(1, dtype=rg.complex64), rg.zeros(0, dtype=rg.complex64)
    dtype_constraints.no_complex_to_compare("f", (none,), none.dtype)
    dtype_constraints.no_complex_to_compare("f", (one.sum(),), none.dtype)
    dtype_constraints.no_complex_to_compare("f", (rg.ones(1),), np.dtype(np.float32))
    for operand in (one, none.requires_grad_()):
        with pytest.raises(MissingKernel):
            dtype_constraints.no_complex_to_compare("f", (operand,), operand.dtype)
    with rg.no_grad():
        dtype_constraints.no_complex_to_compare("f", (none,), none.dtype)
    assert not dtype_constraints.differentiated(2.0)
