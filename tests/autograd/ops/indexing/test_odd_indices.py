"""Indices at the edges: without dimensions, without elements, of bytes, and such as do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg

from ..check import compare_at

X = np.random.default_rng(0).normal(size=(4, 3))

PLACES = """
    x.index_put((T.tensor(1),), x[0])|x.index_put((T.tensor(-1), T.tensor(2)), x[0, 0])
    x.index_put((T.tensor([0]), T.tensor(1)), x[0, 0])|x.index_put((T.tensor(1), T.tensor([0, 1])), x[0, :2])
    x.index_put((T.tensor(1),), x[0], accumulate=True)
    x.scatter(0, none, x.detach())|x.scatter_add(0, none, x.detach())|x.scatter(0, none, 2.0)
    x.scatter_reduce(0, none, x[0].detach(), 'sum')
    x[0, 0].scatter(0, T.tensor([0]), 1.0)|x[0, 0].scatter(0, T.tensor(0), x[:1, 1].detach())
    x[0, 0].scatter(0, none, 1.0)
    x[0, 0].scatter_add(0, T.tensor([0]), x[1, :1].detach())
    x[0, 0].scatter_reduce(0, T.tensor([0]), x[1, 1].detach(), 'amax')
    x[0, :1].scatter_add(0, T.tensor(0), x[1, 1].detach())|(x * 1).scatter_(0, none, x.detach())
    (x[0, 0] * 1).scatter_(0, T.tensor([0]), 1.0)
    x[T.tensor([1, 0, 1, 0], dtype=T.uint8)]|x[:, T.tensor([1, 0, 1], dtype=T.uint8)]|x[T.tensor(1, dtype=T.uint8)]
    x[T.tensor(0, dtype=T.uint8)]|x[T.tensor([[2, 0, 1]] * 4, dtype=T.uint8)]
"""


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:.*uint8")
@pytest.mark.parametrize("call", [call.strip() for line in PLACES.strip().splitlines() for call in line.split("|")])
def test_as_torch(call: str):
    torch: Any = pytest.importorskip("torch")

    def run(T: Any, x: Any) -> Any:
        return eval(call, {"T": T, "x": x, "none": T.tensor([], dtype=T.int64)})

    compare_at(run, X, torch, order=1)


REFUSED = """
    x.index_add(0, T.tensor([0, 1]), x[:3])|x.index_add(0, T.tensor([0, 1]), x[:2, :2])|x.index_add(0, bytes, x[:2])
    x.index_add(0, T.tensor(1), x[:2])|x.index_reduce(0, T.tensor([0, 1]), x[:3], 'mean')|x.index_copy(0, two, x[:3])
    x.index_copy(0, two, x[:2, :2])|x.index_select(0, bytes)|x.put(two, x[0])|x.put(T.tensor(0), x[0])
    x[T.tensor([1, 0, 1], dtype=T.uint8)]|x.index_put((T.tensor(7),), x[0])|x.index_put((T.tensor(1),), x[0, :2])
"""


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:.*uint8")
@pytest.mark.parametrize("call", [call.strip() for line in REFUSED.strip().splitlines() for call in line.split("|")])
def test_refused_with_the_errors_of_torch(call: str):
    torch: Any = pytest.importorskip("torch")
    kinds: list[Any] = []
    for T in (torch, rg):
        names = {"T": T, "x": T.tensor(X), "two": T.tensor([0, 1]), "bytes": T.tensor([0, 1], dtype=T.uint8)}
        try:
            eval(call, names)
        except Exception as error:
            kinds.append(type(error))
    assert len(kinds) == 2, "not refused"
    assert issubclass(kinds[1], kinds[0]), kinds


def test_bytes_as_an_index_are_warned_of():
    with pytest.warns(UserWarning, match="mask"):
        rg.zeros(2)[rg.tensor([1, 0], dtype=rg.uint8)]


def test_a_pending_number_as_an_index_of_index_put():
    with rg.Session("local"):
        place = rg.tensor([3, 1]).min()
        put = rg.zeros(4, 3).index_put((place,), rg.ones(3))
        assert put.sum(1).tolist() == [0.0, 3.0, 0.0, 0.0]
