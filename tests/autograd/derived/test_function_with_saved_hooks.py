"""A Function together with saved-tensor hooks as one Function: hooks in a session (GR)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
import raygrad.autograd.forward_ad as fw
from raygrad.autograd.derived.function_with_saved_hooks import with_hooks
from raygrad.autograd.graph import saved_tensors_hooks


class Square(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * g * x

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return t


class Half(rg.autograd.Function):
    """Its derivative depends on a value that is neither input nor output."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x / 2, x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        half, x = ctx.saved_tensors
        return 2 * g * half + g * x


def to_array(tensor: Any) -> Any:
    return tensor.detach().numpy()


@pytest.fixture(params=[False, True], ids=["in process", "strict"])
def session(request: pytest.FixtureRequest) -> Generator[rg.Session, None, None]:
    with rg.Session(workers=2, strict=request.param) as session:
        yield session


def leaf() -> Any:
    return rg.tensor(np.array([1.0, 2.0, 3.0]), requires_grad=True)


def test_the_derived_class_is_made_once_while_it_is_used() -> None:
    with saved_tensors_hooks(to_array, rg.from_numpy):
        first = with_hooks(Square)
    with saved_tensors_hooks(to_array, rg.from_numpy):
        assert with_hooks(Square) is first
    assert first.__name__ == "Square"
    assert issubclass(first, Square)


def test_later_applications_do_not_wait(session: rg.Session) -> None:
    x = leaf()
    with saved_tensors_hooks(to_array, rg.from_numpy):
        Square.apply(x)
        first = session.last_run
        y = Square.apply(x)
        assert session.last_run is first
    assert type(y.grad_fn).__name__ == "SquareBackward"


def test_a_function_is_known_with_hooks_and_without() -> None:
    results = []
    with rg.Session(strict=True):
        for pack in (None, lambda t: t * 3, lambda t: t * 5):
            x = leaf()
            if pack is None:
                y = Square.apply(x)
            else:
                with saved_tensors_hooks(pack, lambda kept: kept):
                    y = Square.apply(x)
            y.sum().backward()
            results.append(x.grad.tolist())
    assert results == [[2, 4, 6], [6, 12, 18], [10, 20, 30]]


def test_what_is_packed_moves_with_its_context(session: rg.Session) -> None:
    x = leaf()
    with (
        rg.place(worker=0),
        saved_tensors_hooks(lambda t: {"kept": (t * 2, "twice")}, lambda kept: kept["kept"][0] / 2),
    ):
        y = Square.apply(x)
    float(y.sum())
    with rg.place(worker=1):
        z = y * 1
    z.sum().backward()
    assert x.grad.tolist() == [2, 4, 6]


def test_third_derivatives_go_through_what_was_packed(session: rg.Session) -> None:
    x = leaf()
    with saved_tensors_hooks(to_array, rg.from_numpy):
        y = Square.apply(Square.apply(x))
    (g,) = rg.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = rg.autograd.grad(g.sum(), x, create_graph=True)
    (third,) = rg.autograd.grad(h.sum(), x)
    assert third.tolist() == [24, 48, 72]


def test_bw_18_a_packed_intermediate_is_not_differentiated_silently(session: rg.Session) -> None:
    x = leaf()
    with saved_tensors_hooks(to_array, rg.from_numpy):
        y = Half.apply(x)
    (g,) = rg.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="neither an input nor an output"):
        rg.autograd.grad(g.sum(), x)[0].numpy()


def test_hooks_of_before_the_session_hold_in_it(session: rg.Session) -> None:
    """A context that was packed eagerly, whose backward runs on a worker."""
    session.close()
    x = leaf()
    results = []
    for Function in (Square, Half):
        with saved_tensors_hooks(lambda t: (to_array(t) * 2,), lambda kept: rg.from_numpy(kept[0] / 2)):
            y = Function.apply(x)
        with rg.Session():
            results.append(rg.autograd.grad(y.sum(), x)[0].tolist())
    assert results == [[2, 4, 6], [2, 4, 6]]


def test_what_cannot_travel_says_so(session: rg.Session) -> None:
    x = leaf()
    with rg.autograd.graph.allow_mutation_on_saved_tensors(), pytest.raises(RuntimeError, match="does not reach"):
        Square.apply(x)
    with fw.dual_level(), saved_tensors_hooks(to_array, rg.from_numpy), pytest.raises(RuntimeError, match="tangents"):
        Square.apply(fw.make_dual(x, rg.ones(3, dtype=rg.float64)))
    y = Square.apply(x)
    with pytest.raises(RuntimeError, match="handles"):
        _ = y.grad_fn._raw_saved_tensors


def test_a_derived_class_belongs_to_its_function_and_to_both_hooks() -> None:
    made = []
    for cls, pack, unpack in (
        (Square, to_array, rg.from_numpy),
        (Half, to_array, rg.from_numpy),
        (Square, rg.Tensor.detach, rg.from_numpy),
        (Square, to_array, rg.tensor),
    ):
        with saved_tensors_hooks(pack, unpack):
            made.append(with_hooks(cls))
            assert with_hooks(cls) is made[-1]
    assert len(set(made)) == 4
