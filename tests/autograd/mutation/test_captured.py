"""Changes in place under transforms: of what a function captures they are refused, as PyTorch refuses them (FT-07)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import raygrad as rg

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {"eager": nullcontext, "session": rg.Session}

Change = Callable[[Any, Any, Any], Any]


def _without_grad(T: Any, c: Any, x: Any) -> None:
    with T.no_grad():
        c.add_(1)


def _dirty(T: Any) -> Any:
    class AddOne(T.autograd.Function):
        @staticmethod
        def forward(x):
            return x.add_(1)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])

        @staticmethod
        def backward(ctx, g):
            return g

    return AddOne


CHANGES: dict[str, Change] = {
    "add_": lambda T, c, x: c.add_(1),
    "add_ of an input": lambda T, c, x: c.add_(x),
    "an item": lambda T, c, x: c.__setitem__(0, 5.0),
    "an item of an input": lambda T, c, x: c.__setitem__(0, x[0]),
    "copy_": lambda T, c, x: c.copy_(x),
    "zero_": lambda T, c, x: c.zero_(),
    "a view": lambda T, c, x: c[1:].mul_(2),
    "a view by an input": lambda T, c, x: c[1:].mul_(x[1:]),
    "a detached alias": lambda T, c, x: c.detach().add_(1),
    "its data": lambda T, c, x: c.data.add_(1),
    "without grad": _without_grad,
    "+=": lambda T, c, x: c.__iadd__(1),
    "clamp_": lambda T, c, x: c.clamp_(2),
    "detach_": lambda T, c, x: c.detach_(),
}

TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda T, f, x: T.func.grad(lambda t: f(t).sum())(x),
    "vjp": lambda T, f, x: T.func.vjp(f, x)[0],
    "jvp": lambda T, f, x: T.func.jvp(f, (x,), (x,)),
    "jacrev": lambda T, f, x: T.func.jacrev(f)(x),
    "jacfwd": lambda T, f, x: T.func.jacfwd(f)(x),
    "hessian": lambda T, f, x: T.func.hessian(lambda t: f(t).sum())(x),
    "vmap": lambda T, f, x: T.func.vmap(f)(T.stack([x, x])),
    "vmap of grad": lambda T, f, x: T.func.vmap(T.func.grad(lambda t: f(t).sum()))(T.stack([x, x])),
    "grad of vmap": lambda T, f, x: T.func.grad(lambda t: T.func.vmap(f)(T.stack([t, t])).sum())(x),
    "functional.jacobian": lambda T, f, x: T.autograd.functional.jacobian(f, x),
}


def _outcome(run: Callable[[], Any]) -> Any:
    """What a run returns, or the builtin type of the error that it raises."""
    try:
        return run()
    except Exception as error:
        return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_what_a_function_captures_is_changed_where_pytorch_changes_it(transform: str, change: str, mode: str) -> None:
    torch = pytest.importorskip("torch")

    def run(T: Any) -> Any:
        captured, x = T.tensor([1.0, 2.0, 3.0]), T.tensor([1.0, 2.0, 3.0])

        def f(t: Any) -> Any:
            CHANGES[change](T, captured, t)
            return t * 2

        TRANSFORMS[transform](T, f, x)
        return captured.tolist()

    expected = _outcome(lambda: run(torch))
    with MODES[mode]():
        assert _outcome(lambda: run(rg)) == expected


class Buffered:
    """What has a buffer that it updates when it is called, as a batch norm does."""

    def __init__(self, T: Any) -> None:
        self.buffer = T.zeros(3)

    def __call__(self, x: Any) -> Any:
        self.buffer.mul_(0.9).add_(x.detach())
        return x * 2


def _nested(T: Any, x: Any) -> Any:
    inner = T.func.grad(lambda y: (x.add_(1), (y * 2).sum())[1])
    return inner(x.clone()).sum()


def _inside_vmap(T: Any, x: Any) -> Any:
    z = x * 1
    return T.func.vmap(lambda y: z.add_(1).sum() * y)(T.ones(2)).sum()


def _from_a_closed_scope(T: Any, x: Any) -> Any:
    made = T.func.vjp(lambda t: t * 2, x)[0]
    return made.add_(1).sum()


def _kept_from_a_run(T: Any, x: Any) -> Any:
    kept: list[Any] = []
    T.func.grad(lambda t: (kept.append(T.zeros(3)), t.sum())[1])(x)
    kept[0].add_(1)
    return T.func.grad(lambda t: (kept[0].add_(1), t.sum())[1])(x)


def _in_backward(T: Any, x: Any) -> Any:
    captured = T.zeros(3)

    class Counts(T.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            captured.add_(1)
            return g

    return T.func.grad(lambda t: Counts.apply(t).sum())(x)


def _in_forward(T: Any, x: Any) -> Any:
    captured = T.zeros(3)

    class Counts(T.autograd.Function):
        @staticmethod
        def forward(x):
            captured.add_(1)
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g

    return T.func.grad(lambda t: Counts.apply(t).sum())(x), captured


def _dirty_capture(T: Any, x: Any) -> Any:
    captured = T.zeros(3)
    T.func.grad(lambda t: (_dirty(T).apply(captured), t.sum())[1])(x)
    return captured


def _own_buffer(T: Any, x: Any) -> Any:
    return T.func.grad(lambda t: Buffered(T)(t).sum())(x)


def _captured_buffer(T: Any, x: Any) -> Any:
    layer = Buffered(T)
    return T.func.grad(lambda t: layer(t).sum())(x)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "the input of an outer grad": lambda T, x: T.func.grad(lambda t: _nested(T, t * 1))(x),
    "a tensor of an outer grad, in vmap": lambda T, x: T.func.grad(lambda t: _inside_vmap(T, t))(x),
    "an example, in grad": lambda T, x: T.func.vmap(lambda t: _nested(T, t))(T.stack([x, x])),
    "the result of an inner vjp": lambda T, x: T.func.grad(lambda t: _from_a_closed_scope(T, t))(x),
    "what another run made": _kept_from_a_run,
    "the input itself, a leaf": lambda T, x: T.func.grad(lambda t: (t.add_(1) ** 2).sum())(x),
    "the input itself, a dual": lambda T, x: T.func.jvp(lambda t: (t.add_(1) ** 2).sum(), (x,), (x * 2,)),
    "a view of the input": lambda T, x: T.func.jvp(lambda t: t[1:].mul_(3), (x,), (x * 2,)),
    "an example itself": lambda T, x: T.func.vmap(lambda t: t.add_(1))(T.stack([x, x])),
    "a copy": lambda T, x: T.func.grad(lambda t: (t.clone().mul_(3) ** 2).sum())(x),
    "another argument": lambda T, x: T.func.grad(lambda t, z: (z.add_(1), (t * z).sum())[1])(x, T.ones(3)),
    "a named argument": lambda T, x: T.func.grad(lambda t, z: (z.add_(1), (t * z).sum())[1])(x, z=T.ones(3)),
    "a contained argument": lambda T, x: T.func.grad(lambda t, z: (z["a"].add_(1), t.sum())[1])(x, {"a": T.ones(3)}),
    "a captured tensor, by a Function": _dirty_capture,
    "in backward": _in_backward,
    "its own buffer": _own_buffer,
    "a captured buffer": _captured_buffer,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_belongs_to_a_transform_may_be_changed(program: str, mode: str) -> None:
    torch = pytest.importorskip("torch")

    def run(T: Any) -> Any:
        found = PROGRAMS[program](T, T.tensor([1.0, 2.0, 3.0]))
        return [one.tolist() for one in (found if isinstance(found, tuple) else (found,))]

    expected = _outcome(lambda: run(torch))
    with MODES[mode]():
        assert _outcome(lambda: run(rg)) == expected


def test_in_forward_a_function_changes_what_it_captures() -> None:
    torch = pytest.importorskip("torch")
    expected = [one.tolist() for one in _in_forward(torch, torch.ones(3))]
    assert [one.tolist() for one in _in_forward(rg, rg.ones(3))] == expected


def test_a_transform_that_has_ended_forbids_nothing() -> None:
    captured = rg.ones(3)
    with pytest.raises(RuntimeError, match="captured Tensor"):
        rg.func.grad(lambda t: (captured.add_(1), t.sum())[1])(rg.ones(3))
    assert captured.add_(1).tolist() == [2.0, 2.0, 2.0]
