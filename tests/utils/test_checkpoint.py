"""PyTorch's names for checkpointing."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from importlib import import_module
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


def _story(T: Any, early_stop: bool | None, override: bool | None, twice: bool = False) -> list[Any]:
    """What the contexts and the region of a checkpoint tell, and the gradient."""
    told: list[Any] = []

    @contextmanager
    def telling(name: str) -> Any:
        told.append(f"enter {name}")
        try:
            yield
        finally:
            told.append(f"leave {name}")

    def region(x: Any) -> Any:
        told.append("begin")
        y = x.sin()
        told.append("between")
        z = y.exp() * 2.0
        told.append("end")
        return z.sum() + 1.0

    module = T.utils.checkpoint
    x = T.tensor([0.5, 1.0], requires_grad=True)
    options = {} if early_stop is None else {"early_stop": early_stop}
    around = nullcontext() if override is None else module.set_checkpoint_early_stop(override)

    class Again:
        """A context that may be entered again, for a second backward."""

        def __enter__(self) -> None:
            told.append("enter second")

        def __exit__(self, *_: Any) -> None:
            told.append("leave second")

    with around:
        y = module.checkpoint(region, x, use_reentrant=False, context_fn=lambda: (telling("first"), Again()), **options)
    told.append("backward")
    y.backward(retain_graph=twice)
    if twice:
        y.backward()
    return [*told, x.grad.tolist()]


@pytest.mark.oracle
@pytest.mark.parametrize("inside", [False, True], ids=["eagerly", "in a session"])
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("override", [None, False, True])
@pytest.mark.parametrize("early_stop", [None, False, True])
def test_contexts_and_early_stop(early_stop: bool | None, override: bool | None, twice: bool, inside: bool) -> None:
    torch = pytest.importorskip("torch")
    import_module("torch.utils.checkpoint")
    expected = _story(torch, early_stop, override, twice)
    with rg.Session() if inside else nullcontext():
        told = _story(rg, early_stop, override, twice)
    assert told[:-1] == expected[:-1]
    assert told[-1] == pytest.approx(expected[-1], rel=1e-5)


def test_what_a_region_is_not_asked_for() -> None:
    x = leaf(1.0)
    with pytest.raises(ValueError, match="use_reentrant=False"):
        checkpoint(lambda x: x * 2, x, use_reentrant=True, context_fn=lambda: (nullcontext(), nullcontext()))
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(lambda x: x * 2, x, determinism_check="none")
    with pytest.raises(ValueError, match="debug"):
        checkpoint(lambda x: x * 2, x, debug=True)
