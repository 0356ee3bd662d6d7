"""`checkpoint`: the gradients that one gets without it, with less kept; eagerly, in sessions, and against PyTorch."""

from __future__ import annotations

import contextlib
import gc
import time
import warnings
import weakref
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import CheckpointError


@contextlib.contextmanager
def nothing() -> Generator[None]:
    yield


@pytest.fixture(params=["eager", "inprocess", "strict"])
def place(request: pytest.FixtureRequest) -> Generator[str]:
    """Run a test without a session, and in sessions by reference and by value."""
    with nothing() if request.param == "eager" else rg.Session(workers=2, strict=request.param == "strict"):
        yield request.param


class Cubed(rg.autograd.Function):
    """x**3, with something of its own on the context."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.square = x * x
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * (2.0 * ctx.square + x * x)


class Telling(rg.autograd.Function):
    """Emits from forward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        rg.emit("norm", -1.0)
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 2.0 * x


def leaf(*values: float) -> Any:
    return rg.tensor(values, dtype=rg.float64, requires_grad=True)


def layers(x: Any, w: Any) -> Any:
    return ((x * w).sin() * w).exp() * x


def test_gradients_are_the_same_bits_for_arguments_and_for_what_is_captured(place: str) -> None:
    x, w = leaf(0.1, 0.2, 0.3), leaf(2.0, 3.0, 4.0)

    def block(a: Any) -> Any:
        return Cubed.apply(layers(a, w)) * w

    plain = rg.autograd.grad(block(block(x)).sum(), (x, w))
    kept = rg.autograd.grad(rg.checkpoint(block, rg.checkpoint(block, x)).sum(), (x, w))
    for one, other in zip(plain, kept, strict=True):
        assert one.tolist() == other.tolist()


def test_random_numbers_are_drawn_alike_and_go_on_as_without(place: str) -> None:
    x = leaf(1.0, 2.0)

    def block(a: Any) -> Any:
        return (a * rg.rand(2, dtype=rg.float64)).exp()

    def run(call: Callable[..., Any]) -> tuple[Any, ...]:
        rg.manual_seed(3)
        y = call(block, x)
        between = rg.rand(2).tolist()
        (g,) = rg.autograd.grad(y.sum(), x)
        return y.tolist(), between, g.tolist(), rg.rand(2).tolist()

    assert run(rg.checkpoint) == run(lambda fn, *args: fn(*args))


def test_what_it_emits_is_sent_once() -> None:
    seen: list[float] = []

    def block(a: Any) -> Any:
        rg.emit("norm", float(a.detach().sum().item()))
        return Telling.apply(a) * a

    with rg.Session(workers=1) as session:
        session.on("norm", seen.append)
        x = leaf(1.0, 2.0)
        for _ in range(2):
            rg.checkpoint(block, x).sum().backward()
        assert x.grad is not None
        x.grad.tolist()
    assert seen == [3.0, -1.0, 3.0, -1.0]


def test_in_a_session_the_second_run_waits_for_the_gradients() -> None:
    def block(a: Any) -> Any:
        for _ in range(3):
            a = Cubed.apply(a)
        return a

    class Noting(rg.autograd.Function):
        pure = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.made = [x.numpy() + 1.0, time.monotonic_ns()]
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            rg.emit("made", ctx.made[1])
            return grad

    def watched(grad: Any) -> None:
        rg.emit("gradient", time.monotonic_ns())

    with rg.Session(workers=1) as session:
        times: dict[str, list[int]] = {"made": [], "gradient": []}
        for name, seen in times.items():
            session.on(name, seen.append)
        x = leaf(1.0, 2.0)
        y = rg.checkpoint(lambda a: Noting.apply(block(Noting.apply(a))), x)
        y.register_hook(watched)
        y.sum().backward()
        assert x.grad is not None
        x.grad.tolist()
    assert len(times["made"]) == 2
    assert min(times["made"]) > times["gradient"][0]


def test_nested_regions_and_containers(place: str) -> None:
    x, y = leaf(0.5), leaf(0.25)

    def inner(pair: Any, *, scale: Any) -> Any:
        return {"sum": (pair[0] * pair[1]).exp() * scale, "other": pair[0].sin()}

    def outer(a: Any, b: Any, call: Any) -> Any:
        made = call(inner, (a * b, b.exp()), scale=a)
        return made["sum"] * made["other"] * a

    plain = rg.autograd.grad(outer(x, y, lambda fn, *args, **named: fn(*args, **named)).sum(), (x, y))
    kept = rg.autograd.grad(rg.checkpoint(outer, x, y, rg.checkpoint).sum(), (x, y))
    assert [g.tolist() for g in plain] == [g.tolist() for g in kept]


def test_a_second_backward_and_a_second_derivative(place: str) -> None:
    x, w = leaf(0.4), leaf(1.5)
    y = rg.checkpoint(layers, x, w).sum()
    first = [rg.autograd.grad(y, x, retain_graph=True)[0].item() for _ in range(2)]
    (g,) = rg.autograd.grad(y, x, create_graph=True)
    (gg,) = rg.autograd.grad(g, w)
    (h,) = rg.autograd.grad(layers(x, w).sum(), x, create_graph=True)
    (hh,) = rg.autograd.grad(h, w)
    assert first == [h.item(), h.item()]
    assert (g.item(), gg.item()) == (h.item(), hh.item())


def test_without_recording_the_function_is_just_called() -> None:
    calls: list[int] = []

    def block(a: Any) -> Any:
        calls.append(1)
        return a.exp()

    with rg.no_grad():
        assert not rg.checkpoint(block, leaf(1.0)).requires_grad
    assert calls == [1]


def test_what_operations_save_is_let_go_and_made_again() -> None:
    held: list[weakref.ref[Any]] = []

    def block(a: Any) -> Any:
        middle = a.exp()
        held.append(weakref.ref(middle._data))
        return middle.sin()

    x = leaf(0.5)
    y = rg.checkpoint(block, x)
    gc.collect()
    assert [ref() for ref in held] == [None]
    y.backward()
    assert len(held) == 2
    assert x.grad is not None
    assert x.grad.item() == np.cos(np.exp(0.5)) * np.exp(0.5)


def test_a_function_that_does_otherwise_the_second_time_is_told(place: str) -> None:
    calls: list[int] = []

    def fewer(a: Any) -> Any:
        calls.append(1)
        return a.exp() if len(calls) == 2 else a.exp().sin()

    def other(a: Any) -> Any:
        calls.append(1)
        return (a[:1] if len(calls) == 4 else a).exp()

    x = leaf(1.0, 2.0)
    with pytest.raises(
        CheckpointError, match=r"checkpoint\(.*fewer\): run again for backward it saved 1 tensors where"
    ):
        rg.checkpoint(fewer, x).sum().backward()
    with pytest.raises(RuntimeError, match=r"shape \[1\] where its first run saved a float64 tensor of shape \[2\]"):
        rg.checkpoint(other, x).sum().backward()


def test_an_argument_that_was_changed_since_is_told(place: str) -> None:
    x = leaf(1.0, 2.0)
    a = x * 1.0
    y = rg.checkpoint(lambda t: t.sum().exp(), a)
    a.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_it_wants_a_function() -> None:
    with pytest.raises(TypeError, match="expects a function and its arguments, got Tensor"):
        rg.checkpoint(leaf(1.0), leaf(1.0))


@pytest.mark.oracle
def test_pytorch_gives_the_same_values_calls_and_errors() -> None:
    torch = pytest.importorskip("torch")
    checkpoint: Any = pytest.importorskip("torch.utils.checkpoint").checkpoint

    def program(lib: Any, call: Any) -> list[Any]:
        calls: list[int] = []
        shown: list[Any] = []
        x = lib.tensor([0.1, 0.7], dtype=lib.float64, requires_grad=True)
        w = lib.tensor([1.5, 2.5], dtype=lib.float64, requires_grad=True)

        def block(a: Any) -> Any:
            calls.append(1)
            hidden = (a * w).sin()
            hidden.register_hook(lambda g: shown.append(g.tolist()))
            return call(lambda b: (b * w).exp(), hidden) * a

        y = call(block, x)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        shown += [x.grad.tolist(), w.grad.tolist(), len(calls)]
        try:
            y.sum().backward()
        except RuntimeError as error:
            shown.append(str(error)[:44])
        return shown

    ours = program(rg, rg.checkpoint)
    theirs = program(torch, lambda fn, *args: checkpoint(fn, *args, use_reentrant=False))
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one == other or np.allclose(one, other, rtol=1e-14)


def test_a_compiled_step_replays_the_second_run_with_the_numbers_of_the_first() -> None:
    w = leaf(0.5, 0.25)

    def block(a: Any) -> Any:
        return Cubed.apply(layers(a, w) * rg.rand(2, dtype=rg.float64))

    def step(call: Callable[..., Any]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            w.grad = None
            call(block, x).sum().backward()
            return w.grad

        return run

    shown: list[Any] = []
    for call in (rg.checkpoint, lambda fn, *args: fn(*args)):
        rg.manual_seed(5)
        with rg.Session(workers=1) as session:
            run = session.compile(step(call))
            shown.append([run(rg.tensor([1.0, t], dtype=rg.float64)).tolist() for t in (1.0, 2.0, 3.0)])
    assert shown[0] == shown[1]


def test_a_backward_may_read_what_it_saved_twice() -> None:
    class ReadsTwice(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * (ctx.saved_tensors[0] + ctx.saved_tensors[0])

    x = rg.tensor([2.0, 3.0], requires_grad=True)
    rg.checkpoint(ReadsTwice.apply, x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 6.0]


class Thirds(rg.autograd.Function):
    """Saves and emits what goes by the default dtype and by how NumPy handles errors."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        third = rg.tensor(1.0) / 3.0
        ctx.save_for_backward(third, rg.from_numpy(1.0 / x.numpy()))
        rg.emit("third", third)
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        third, inverse = ctx.saved_tensors
        return (grad * third).nan_to_num(0.0) + inverse.isinf()


def test_the_second_run_sees_the_settings_of_the_first(place: str) -> None:
    x = rg.zeros(2, dtype=rg.float64, requires_grad=True)
    before = rg.get_default_dtype()
    rg.set_default_dtype(rg.float64)
    try:
        with np.errstate(all="ignore"):
            made = rg.checkpoint(lambda x: Thirds.apply(x).sin(), x)
    finally:
        rg.set_default_dtype(before)
    with np.errstate(all="raise"):
        made.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0 / 3.0 + 1.0] * 2


@pytest.mark.parametrize("options", [{}, {"strict": True}], ids=str)
def test_the_second_run_emits_nothing_where_it_is_a_call_of_a_new_kind(options: dict[str, Any]) -> None:
    """Filters of warnings are those of the pass, and so this call has not been seen before."""
    thirds: list[float] = []
    with rg.Session(**options) as session:
        session.on("third", lambda third: thirds.append(third.item()))
        x = rg.ones(2, requires_grad=True)
        made = rg.checkpoint(lambda x: Thirds.apply(x).sin(), x)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="a filter of the pass")
            made.sum().backward()
    assert len(thirds) == 1
