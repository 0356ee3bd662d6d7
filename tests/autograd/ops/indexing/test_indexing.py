"""The family of ops in `ops/indexing.py`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.errors import ShapeError


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "session"])
@pytest.mark.parametrize("flows", [False, True], ids=["constant", "differentiated"])
@pytest.mark.parametrize("source", ["cpu", "cuda:0", "cuda:1"])
@pytest.mark.parametrize("target", ["cpu", "cuda:0", "cuda:1"])
def test_what_is_copied_to_a_region_may_come_from_any_device(
    target: str, source: str, flows: bool, inside: bool
) -> None:
    with use_stand_in(2), rg.Session(workers=1) if inside else nullcontext():
        values = rg.tensor([1.0, 2.0], device=source, requires_grad=flows)
        x = rg.zeros(3, device=target)
        x[1:] = values * 3.0
        y = rg.zeros(2, device=target).copy_(values)
        assert (x.tolist(), y.tolist()) == ([0.0, 3.0, 6.0], [1.0, 2.0])
        assert str(x.device) == str(y.device) == target
        if flows:
            (x.sum() + y.sum()).backward()
            gradient: Any = values.grad
            assert gradient.tolist() == [4.0, 4.0]
            assert str(gradient.device) == source


@pytest.mark.parametrize("name", ["scatter", "scatter_add"])
def test_a_source_of_other_dimensions_than_the_index_is_refused(name: str) -> None:
    index = rg.zeros(2, 2, dtype=rg.int64)
    with pytest.raises(ShapeError, match=r"as many dimensions as src, got \[2, 2\] and \[3\]"):
        getattr(rg.zeros(3, 3), name)(0, index, rg.zeros(3))


def test_the_gradient_of_a_source_is_zero_where_scatter_add_did_not_read_it() -> None:
    source = rg.ones(3, 3, requires_grad=True)
    rg.zeros(3, 3).scatter_add(0, rg.zeros(2, 2, dtype=rg.int64), source).sum().backward()
    assert source.grad is not None
    assert source.grad.tolist() == [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
