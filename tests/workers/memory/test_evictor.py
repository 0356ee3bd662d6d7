"""What no step needs now leaves a device that is full: it is spilled, or dropped for a recipe."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.errors import ExecutionError, OutOfDeviceMemory
from raygrad.workers.memory.rematerialize import Recipe

SIZE = 20_000
ARRAY = 8 * SIZE
LAYERS = 10
pytestmark = pytest.mark.filterwarnings("ignore:cuda.0 ran out of memory:UserWarning")


class Own(rg.autograd.Function):
    """Saves what is neither argument nor output."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        s = (x * 2).sin()
        ctx.save_for_backward(s)
        return s * 1.5

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (s,) = ctx.saved_tensors
        return grad * s


class Held(Own):
    """Holds it among its attributes, once by itself and once in a list."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.s = (x * 2).sin()
        ctx.list = [ctx.s]
        return ctx.s * 1.5

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        assert ctx.list[0].device == ctx.s.device == grad.device
        return grad * ctx.s


class Hidden(Own):
    """Holds it in what can be neither pickled nor looked into."""

    pure = True
    runs = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        rg.emit("forward", 1)
        s = (x * 2).sin()
        ctx.by_s = lambda grad: grad * s
        ctx.save_for_backward(x)
        return s * 1.5

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return ctx.by_s(grad) * x


class Drawn(Hidden):
    """Draws random numbers."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        s = (x * 2).sin() * rg.rand(1, dtype=x.dtype, device=x.device)
        ctx.by_s = lambda grad: grad * s
        ctx.save_for_backward(x)
        return s * 1.5


class Secret(Hidden):
    pure = None  # may not run twice


def trained(
    function: Any, has: int | None, *, apart: bool = False, strict: bool = False, ops: bool = False
) -> tuple[bytes, int, int]:
    """Return the bits of a gradient on a GPU that `has` so much memory, its peak, and how many forwards were heard."""
    heard: list[Any] = []
    with use_stand_in(1, memory=has) as device, rg.Session(workers=1, gpus=1, strict=strict) as session:
        session.on("forward", heard.append)
        w = rg.tensor(np.linspace(0.0, 1.0, SIZE)).cuda().requires_grad_()
        y = w
        for _ in range(LAYERS):
            y = (y * w).sin() + y if ops else function.apply(y) + y
        loss = y.sum()
        if apart:
            session.run(loss).wait()
        loss.backward()
        bits = w.grad.cpu().numpy().tobytes()  # pyright: ignore[reportOptionalMemberAccess]
        del w, y, loss  # else the end of the session brings them home
        return bits, device.memory(0).peak, len(heard)


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
@pytest.mark.parametrize("apart", [False, True], ids=["one run", "two runs"])
@pytest.mark.parametrize("function", [Own, Held, Hidden])
def test_what_contexts_hold_on_a_device_makes_way(function: Any, apart: bool, strict: bool) -> None:
    free, peak, heard = trained(function, None, apart=apart, strict=strict)
    has = 8 * ARRAY
    assert peak > 1.8 * has
    bits, peak, again = trained(function, has, apart=apart, strict=strict)
    assert bits == free
    assert peak <= has
    assert again == heard, "what is made again is not noticed"


def test_what_is_made_again_draws_what_it_drew(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Recipe] = []
    run = Recipe.run
    monkeypatch.setattr(Recipe, "run", lambda recipe, store: (made.append(recipe), run(recipe, store))[1])
    found: list[bytes] = []
    for has in (None, 8 * ARRAY):
        rg.manual_seed(3)
        found.append(trained(Drawn, has, apart=True)[0])
    assert made
    assert found[0] == found[1]


def test_what_can_neither_be_written_nor_made_again_is_a_clear_error() -> None:
    with pytest.raises(OutOfDeviceMemory, match=r"cuda:0 is out of memory in .*raygrad\.checkpoint"):
        trained(Secret, 8 * ARRAY)


@contextmanager
def disk_of(size: int) -> Generator[None]:
    """Let no file grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("function", [None, Hidden], ids=["ops", "functions"])
def test_what_the_disk_does_not_take_is_made_again(function: Any) -> None:
    free, peak, _ = trained(function, None, ops=function is None)
    has = 16 * ARRAY if function is None else 10 * ARRAY
    assert peak > 1.4 * has
    with disk_of(2 * ARRAY):
        bits, peak, _ = trained(function, has, ops=function is None)
    assert bits == free
    assert peak <= has


def test_a_disk_that_takes_nothing_is_the_error_where_nothing_can_be_made_again() -> None:
    with disk_of(0), pytest.raises(ExecutionError, match=r"could not be spilled to .*set TMPDIR"):
        trained(Own, 8 * ARRAY)


def test_what_was_let_go_can_still_be_looked_at() -> None:
    with use_stand_in(1, memory=8 * ARRAY), rg.Session(workers=1, gpus=1) as session:
        y: Any = rg.tensor(np.linspace(0.0, 1.0, SIZE)).cuda().requires_grad_()
        made: list[Any] = []
        for _ in range(LAYERS):
            made.append(Held.apply(y))
            y = made[-1] + y
        y.sum().backward()
        session.run().wait()
        shown = made[0].grad_fn.s.cpu().numpy()
        np.testing.assert_array_equal(shown, np.sin(np.linspace(0.0, 1.0, SIZE) * 2))
        del made, y
