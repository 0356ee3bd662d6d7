"""PyTorch's names for checkpointing."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

import raygrad as rg
from raygrad.utils.checkpoint import checkpoint, checkpoint_sequential


def leaf(*values: float) -> Any:
    return rg.tensor(list(values), dtype=rg.float64, requires_grad=True)


@pytest.mark.parametrize("inside", [False, True], ids=["eagerly", "in a session"])
@pytest.mark.parametrize("use_reentrant", [None, False, True])
def test_gradients_are_those_without_it(inside: bool, use_reentrant: bool | None) -> None:
    x: Any = leaf(0.5, 1.0)
    w: Any = leaf(2.0, 3.0)
    runs: list[int] = []

    def region(x: Any, power: int = 1) -> Any:
        runs.append(1)
        return (x * w).sin() ** power

    with rg.Session() if inside else nullcontext():
        region(x, 2).sum().backward()
        expected = [x.grad.tolist(), w.grad.tolist()]
        for one in (x, w):
            one.grad = None
        runs.clear()
        checkpoint(region, x, use_reentrant=use_reentrant, power=2).sum().backward()
        assert [x.grad.tolist(), w.grad.tolist()] == expected
        assert len(runs) == 2


@pytest.mark.parametrize(("segments", "again"), [(1, 0), (2, 2), (3, 2), (5, 4)])
def test_a_sequence_is_cut_into_regions(segments: int, again: int) -> None:
    x: Any = leaf(0.5, 1.0)
    runs: list[int] = []

    def step(number: int) -> Any:
        def function(value: Any) -> Any:
            runs.append(number)
            return (value * (number + 1)).sin()

        return function

    steps = [step(number) for number in range(5)]
    value = x
    for function in steps:
        value = function(value)
    value.sum().backward()
    expected = x.grad.tolist()
    for one in (x,):
        one.grad = None
    runs.clear()
    checkpoint_sequential(steps, segments, x, use_reentrant=False).sum().backward()
    assert x.grad.tolist() == expected
    assert len(runs) == 5 + again


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="between 1 and the number of functions, 1, got 2"):
        checkpoint_sequential([rg.sin], 2, leaf(1.0))
    with pytest.raises(ValueError, match="preserve_rng_state=False"):
        checkpoint(rg.sin, leaf(1.0), preserve_rng_state=False)
    with pytest.raises(TypeError, match="expects a function"):
        checkpoint(leaf(1.0), leaf(1.0))
