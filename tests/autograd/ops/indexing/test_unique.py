"""The family of ops in `ops/distinct.py`: against torch, eagerly, in a session and on the simulated device."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.errors import MissingKernel

BOTH = {"return_inverse": True, "return_counts": True}
VALUES = [[3, 1, 3], [2, 1, 1], [3, 1, 3]]
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "unique": lambda T: (T.unique(T.tensor(VALUES)), *T.tensor(VALUES).unique(**BOTH)),
    "unique floats": lambda T: T.unique(T.tensor([0.5, -1.0, 0.5, np.inf]), return_counts=True),
    "unique not numbers": lambda T: T.unique(T.tensor([np.nan, 1.0, np.nan]), return_inverse=True),
    "unique bools": lambda T: T.unique(T.tensor([True, False, True]), **BOTH),
    "unique of a number": lambda T: T.unique(T.tensor(3.0), **BOTH),
    "unique of nothing": lambda T: T.unique(T.zeros(0), **BOTH),
    "unique of what requires grad": lambda T: T.unique(T.ones(3, requires_grad=True)),
    "unique rows": lambda T: T.unique(T.tensor(VALUES), dim=0, **BOTH),
    "unique columns": lambda T: T.unique(T.tensor(VALUES), dim=-1, **BOTH),
    "consecutive": lambda T: T.unique_consecutive(T.tensor([1, 1, 2, 2, 1]), **BOTH),
    "consecutive of a matrix": lambda T: T.tensor(VALUES).unique_consecutive(return_inverse=True),
    "consecutive rows": lambda T: T.unique_consecutive(T.tensor([[1, 2], [1, 2], [0, 2]]), dim=0, **BOTH),
    "isin": lambda T: (
        T.isin(T.tensor(VALUES), T.tensor([1, 2])),
        T.isin(T.tensor(VALUES), 3, invert=True),
        T.isin(2, T.tensor(VALUES)),
    ),
    "bincount": lambda T: (
        T.bincount(T.tensor([0, 2, 2])),
        T.tensor([1, 1]).bincount(minlength=4),
        T.bincount(T.tensor([0, 2, 2]), T.tensor([0.5, 1.0, 2.0])),
        T.bincount(T.tensor([], dtype=T.int64), minlength=2),
    ),
}
ROWS = ("unique rows", "unique columns")


def outcome(program: Callable[[Any], Any], T: Any) -> list[Any]:
    found = program(T)
    outputs = found if isinstance(found, tuple) else (found,)
    return [(str(t.dtype).removeprefix("torch."), t.tolist()) for t in outputs]


@pytest.mark.oracle
@pytest.mark.parametrize("where", ["eager", "session", "device"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_torch(name: str, where: str):
    torch: Any = pytest.importorskip("torch")
    want = outcome(PROGRAMS[name], torch)
    with contextlib.ExitStack() as stack:
        if where == "session":
            stack.enter_context(rg.Session())
        if where == "device":
            stack.enter_context(use_stand_in(1))
            stack.enter_context(rg.device("cuda:0"))
            if name in ROWS:
                with pytest.raises(MissingKernel, match="row_order"):
                    PROGRAMS[name](rg)
                return
        got = outcome(PROGRAMS[name], rg)
    assert str(got) == str(want)


def test_only_whole_numbers_from_zero_on_are_counted():
    for values in ([-1, 2], [0.5], [[1]]):
        with pytest.raises(RuntimeError, match="1-d non-negative"):
            rg.bincount(rg.tensor(values))
    with pytest.raises(RuntimeError, match="minlength"):
        rg.bincount(rg.tensor([1]), minlength=-1)
