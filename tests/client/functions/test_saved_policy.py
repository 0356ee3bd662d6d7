"""Where what forward saves is kept: policies of sessions and Functions, and forwards that run again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.client.functions.saved_policy import POLICIES
from raygrad.errors import ImpureFunctionError

SIZE = 20_000


def heavy(**members: Any) -> Any:
    """A Function whose context holds an array of its own, which says by a file how often its forward ran."""

    def forward(ctx: Any, x: Any, w: Any, path: Any = None) -> Any:
        if path is not None:
            with Path(path).open("a") as file:
                file.write("f")
        rg.emit("ran", 1)
        ctx.inner = np.sin(x.numpy()) * w.numpy()
        ctx.save_for_backward(x, w)
        return rg.from_numpy(np.exp(ctx.inner))

    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        outer = np.exp(ctx.inner)
        grad_x = grad * rg.from_numpy(outer * np.cos(x.numpy()) * w.numpy())
        return grad_x, grad * rg.from_numpy(outer * np.sin(x.numpy())), None

    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), **members}
    return type("Heavy", (rg.autograd.Function,), body)


def leaves() -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    return tuple(rg.tensor(generator.standard_normal(SIZE) * 0.3, requires_grad=True) for _ in range(2))  # type: ignore[return-value]


def chain(function: Any, path: Any = None) -> tuple[Any, Any, Any]:
    x, w = leaves()
    y = x
    for _ in range(3):
        y = function.apply(y, w, path)
    return y.sum(), x, w


def bits(*tensors: Any) -> tuple[bytes, ...]:
    return tuple(tensor.grad.numpy().tobytes() for tensor in tensors)


@pytest.fixture(params=[False, True], ids=["plain", "strict"])
def strict(request: Any) -> Any:
    return request.param


@pytest.fixture(scope="module")
def expected() -> tuple[bytes, ...]:
    loss, x, w = chain(heavy())
    loss.backward()
    return bits(x, w)


@pytest.mark.parametrize("apart", [False, True], ids=["one submission", "two submissions"])
@pytest.mark.parametrize("policy", POLICIES)
def test_gradients_are_the_same_bits_under_every_policy(
    strict: bool, policy: str, apart: bool, expected: tuple[bytes, ...]
) -> None:
    with rg.Session(workers=2, strict=strict, saved=policy):
        loss, x, w = chain(heavy())
        if apart:
            loss.item()
        loss.backward()
        assert bits(x, w) == expected


def test_what_is_saved_is_kept_where_the_policy_says(strict: bool) -> None:
    held: dict[str, int] = {}
    for policy in POLICIES:
        with rg.Session(workers=1, strict=strict, saved=policy) as session:
            for _ in range(2):  # the first context of all stays on its worker: nothing is known of it yet
                loss, _, _ = chain(heavy(), None)
                loss.item()
            held[policy] = session.saved_bytes
    one = SIZE * 8
    assert held["store"] >= 5 * one  # three contexts, and the two values between them
    assert held["worker"] == 0
    assert 0 < held["recompute"] <= held["store"] - 3 * one  # arguments only


@pytest.mark.parametrize("policy", POLICIES)
def test_a_forward_runs_again_only_to_recompute_and_is_not_heard_then(policy: str, tmp_path: Path) -> None:
    path, heard = tmp_path / "forwards", []
    with rg.Session(workers=1, saved=policy) as session:
        session.on("ran", heard.append)
        loss, _, _ = chain(heavy(), str(path))
        loss.backward()
        session._waiter.wait_for_everything()
    assert len(path.read_text()) == (6 if policy == "recompute" else 3)
    assert len(heard) == 3


@pytest.mark.parametrize(
    ("session_policy", "members", "runs"),
    [
        ("store", {"saved_policy": "recompute"}, 6),
        ("recompute", {"saved_policy": "store"}, 3),
        ("recompute", {"saved_policy": "worker"}, 3),
        ("recompute", {"pure": False}, 3),
        ("recompute", {"pure": True}, 6),
    ],
)
def test_a_function_says_otherwise_of_its_own_context(
    session_policy: str, members: dict[str, Any], runs: int, tmp_path: Path, expected: tuple[bytes, ...]
) -> None:
    path = tmp_path / "forwards"
    with rg.Session(workers=1, saved=session_policy):
        loss, x, w = chain(heavy(**members), str(path))
        loss.backward()
        assert bits(x, w) == expected
    assert len(path.read_text()) == runs


def test_a_context_that_holds_nothing_of_its_own_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "forwards"

    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with path.open("a") as file:
                file.write("f")
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * 2.0

    with rg.Session(workers=1, saved="recompute"):
        x: Any = rg.ones(3, requires_grad=True)
        Square.apply(Square.apply(x)).sum().backward()
        assert x.grad.tolist() == [4.0, 4.0, 4.0]
    assert path.read_text() == "ff"


def test_h2_a_forward_that_returns_other_bits_the_second_time_is_refused() -> None:
    class Counts(rg.autograd.Function):
        saved_policy = "recompute"

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.factor = np.full(3, 1.0 + time.perf_counter_ns())
            return x * rg.from_numpy(ctx.factor)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * rg.from_numpy(ctx.factor)

    with rg.Session() as session:
        x = rg.ones(3, dtype=rg.float64, requires_grad=True)
        Counts.apply(x).sum().backward()
        with pytest.raises(ImpureFunctionError, match="Counts was run again") as caught:
            session._waiter.wait_for_everything()
    assert caught.value.function == "Counts"


def test_saved_values_are_read_again_from_a_forward_that_is_run_for_it(strict: bool) -> None:
    with rg.Session(strict=strict, saved="recompute"):
        x, w = leaves()
        y = heavy().apply(x, w, None)
        saved = y.grad_fn.saved_tensors
        assert np.array_equal(saved[0].detach().numpy(), x.detach().numpy())
        inner = y.grad_fn.inner
        assert np.array_equal(inner, np.sin(x.detach().numpy()) * w.detach().numpy())
        y.sum().backward()
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            y.sum().backward()


def test_a_graph_that_is_retained_is_passed_twice(strict: bool, expected: tuple[bytes, ...]) -> None:
    with rg.Session(strict=strict, saved="recompute"):
        loss, x, w = chain(heavy())
        for retain in (True, True, False):
            x.grad = w.grad = None
            loss.backward(retain_graph=retain)
            assert bits(x, w) == expected


def test_derivatives_of_derivatives_run_forward_again(strict: bool) -> None:
    class Cube(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * x
            ctx.save_for_backward(x, y)
            ctx.three = np.full(2, 3.0)
            return y * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, _ = ctx.saved_tensors
            return grad * x * x * rg.from_numpy(ctx.three)

    with rg.Session(strict=strict, saved="recompute"):
        x = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
        (first,) = rg.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
        (second,) = rg.autograd.grad(first.sum(), x)
        assert (first.tolist(), second.tolist()) == ([3.0, 12.0], [6.0, 12.0])


def test_a_compiled_step_runs_forwards_again(expected: tuple[bytes, ...]) -> None:
    function = heavy()
    with rg.Session(workers=1, saved="recompute") as session:
        x, w = leaves()

        def step() -> Any:
            y = x
            for _ in range(3):
                y = function.apply(y, w, None)
            loss = y.sum()
            loss.backward()
            return loss

        compiled = session.compile(step)
        for _ in range(3):
            x.grad = w.grad = None
            compiled()
            assert bits(x, w) == expected


def test_a_policy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="saved must be one of 'store', 'worker', 'recompute', not 'disk'"):
        rg.Session(saved="disk")
    with rg.Session(), pytest.raises(ValueError, match=r"Heavy.saved_policy must be one of .* not 'disk'"):
        heavy(saved_policy="disk").apply(*leaves(), None)
    with rg.Session(), pytest.raises(TypeError, match=r"Heavy.pure must be True, False or None"):
        heavy(pure="yes").apply(*leaves(), None)
    with rg.Session(), pytest.raises(ValueError, match="must not run twice"):
        heavy(pure=False, saved_policy="recompute").apply(*leaves(), None)


def test_what_a_function_says_of_pinning_is_yes_or_no() -> None:
    with rg.Session(), pytest.raises(TypeError, match=r"Heavy\.pinned must be True or False, not 'yes'"):
        heavy(pinned="yes").apply(rg.ones(2, dtype=rg.float64), rg.ones(2, dtype=rg.float64))


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_a_backward_that_writes_to_what_was_saved_is_told_what_to_do(strict: bool) -> None:
    class Writes(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            x.numpy()[0] = 5.0
            return grad

    with rg.Session(strict=strict):
        x = rg.ones(2, requires_grad=True)
        Writes.apply(x).sum().backward()
        with pytest.raises(ValueError, match=r"the backward of Writes changed .* in place, .*x\.clone\(\)"):
            print(x.grad)
