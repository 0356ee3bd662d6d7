"""Running sums and products that begin with their initial element, as the array API standard has them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg

from ..check import compare_at


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "session"])
@pytest.mark.parametrize(("name", "initial"), [("cumulative_sum", 0.0), ("cumulative_prod", 1.0)])
def test_the_initial_element_depends_on_nothing(name: str, initial: float, inside: bool):
    run: Any = getattr(rg, name)
    with rg.Session() if inside else nullcontext():
        out = run(rg.tensor([np.inf, 2.0, np.nan]), include_initial=True)
        assert out.shape == (4,)
        assert out[0].item() == initial


def test_what_has_no_elements_begins_with_the_initial_element_too():
    assert rg.cumulative_prod(rg.zeros(2, 0), axis=-1, include_initial=True).numpy().tolist() == [[1.0], [1.0]]
    assert rg.cumulative_sum(rg.zeros(0), include_initial=True).numpy().tolist() == [0.0]


def test_the_place_of_a_running_maximum_is_that_of_the_last_nan() -> None:
    places = rg.cummax(rg.tensor([1.0, float("nan"), float("nan"), 2.0]), 0)[1]
    assert places.tolist() == [0, 1, 2, 2]


@pytest.mark.oracle
@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_diff_as_torch(n: int):
    torch: Any = pytest.importorskip("torch")
    point = np.array([1.0, 4.0, 2.0, 8.0])
    compare_at(lambda T, x: T.diff(x, n, prepend=x[:2].detach(), append=x[:1].detach()), point, torch, order=1)
