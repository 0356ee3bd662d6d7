"""The Function over code of another framework: what is kept, what is made again, what a session knows beforehand."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.pytree import LEAF, flatten
from raygrad.errors import GraphError
from raygrad.interop.calls import DerivativeKind, Outcome, TensorPlaceholder, decoded
from raygrad.interop.node import (
    ForeignCallable,
    ForeignFunction,
    FrameworkResiduals,
    RunResult,
    Runtime,
    _array,
    function_class_of,
)

ONE = Outcome(LEAF, (TensorPlaceholder.TENSOR,))


class Cubes(Runtime):
    """A framework that can do one thing, x -> x^3 and its tangent, and counts what it does."""

    runs = 0
    pulls = 0
    wrong = False

    def run(self, call: Any, arrays: Sequence[Any], needs: Sequence[int]) -> RunResult:
        Cubes.runs += 1
        if not call.levels:
            return RunResult([arrays[0] ** 3], ONE, arrays[0] if needs else None)
        assert call.levels[0].kind is DerivativeKind.JVP
        x, tangent = arrays
        listed = Outcome(flatten([0])[1], (TensorPlaceholder.TENSOR,))
        return RunResult([3 * x**2 * tangent], listed, None)

    def vjp(self, kept: Any, wanted: Sequence[int], cotangents: Sequence[Any], retain: bool) -> list[Any]:
        Cubes.pulls += 1
        return [3 * kept**2 * cotangents[0]]

    def infer(self, call: Any, specs: Sequence[Any]) -> Any:
        return [((7,) if Cubes.wrong else specs[0][0], specs[0][1].name)], ONE


class CubeNode(ForeignFunction):
    @staticmethod
    def open_payload(payload: bytes) -> Runtime:
        assert payload.startswith(b"cubes")
        return Cubes()


class Cube(ForeignCallable):
    def __init__(self, recompute: bool = False, payload: bytes = b"cubes") -> None:
        super().__init__()
        self._class = function_class_of(CubeNode, "Cube", payload, recompute)

    @property
    def function_class(self) -> type[ForeignFunction]:
        return self._class

    def _own(self) -> list[Any]:
        return []

    def _refusal(self, leaf: Any) -> str | None:
        return "no text" if isinstance(leaf, str) else None


@pytest.fixture(autouse=True)
def counted() -> None:
    Cubes.runs = Cubes.pulls = 0
    Cubes.wrong = False


def leaf() -> Any:
    return rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)


def test_backward_uses_what_forward_kept() -> None:
    x = leaf()
    Cube()(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
    assert (Cubes.runs, Cubes.pulls) == (1, 1)


def test_recompute_keeps_nothing_and_runs_forward_again() -> None:
    x = leaf()
    y = Cube(recompute=True)(x)
    assert y.grad_fn.held.kept is None
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
    assert (Cubes.runs, Cubes.pulls) == (2, 1)


def test_a_graph_that_stayed_behind_is_made_again() -> None:
    assert pickle.loads(pickle.dumps(FrameworkResiduals(object()))).kept is None
    x = leaf()
    y = Cube()(x)
    y.grad_fn.held.kept = None
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
    assert Cubes.runs == 2


def test_what_was_kept_is_let_go_by_the_pass_unless_it_is_retained() -> None:
    x = leaf()
    y = Cube()(x)
    y.sum().backward(retain_graph=True)
    assert y.grad_fn.held.kept is not None
    loss = y.sum()
    loss.backward()
    assert y.grad_fn.held.kept is None
    assert x.grad.tolist() == [6.0, 24.0]
    assert Cubes.runs == 1
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_nothing_is_kept_without_grad() -> None:
    with rg.no_grad():
        assert Cube()(leaf()).grad_fn is None
    assert Cubes.runs == 1


def test_an_input_that_was_changed_since_is_refused() -> None:
    z = leaf() * 1.0
    y = Cube()(z)
    z += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_arrays_become_tensors_and_what_is_refused_names_the_node() -> None:
    assert Cube()(np.array([2.0])).tolist() == [8.0]
    with pytest.raises(TypeError, match="Cube: no text"):
        Cube()("text")


def test_equal_ways_to_call_are_encoded_once() -> None:
    cube = Cube()
    first, second = cube(leaf()).grad_fn.code, cube(leaf()).grad_fn.code
    assert first is second
    assert decoded(first).own == 0


def test_h3_a_session_knows_the_result_without_waiting() -> None:
    with rg.Session(workers=1) as session:
        x = leaf()
        y = Cube()(x)
        assert session.last_run is None
        y.sum().backward()
        assert x.grad.tolist() == [3.0, 12.0]
        assert not session._observed.first_runs


def test_what_infer_said_must_hold() -> None:
    Cubes.wrong = True
    session = rg.Session(workers=1)
    with pytest.raises(GraphError, match=r"the infer of 'Cube' .* said"), session:
        Cube(payload=b"cubes, wrongly")(leaf()).numpy(force=True)
    session.close(discard=True)


def test_the_tangent_is_the_derivative_applied() -> None:
    _, tangent = rg.func.jvp(Cube(), (leaf().detach(),), (rg.ones(2, dtype=rg.float64),))
    assert tangent.tolist() == [3.0, 12.0]


def test_vmap_is_refused_with_the_way_around_it() -> None:
    with pytest.raises(RuntimeError, match=r"torch\.func\.vmap"):
        rg.vmap(Cube())(rg.ones(2, 3))


def test_an_array_of_another_device_is_refused_with_the_way_to_the_cpu() -> None:
    class Elsewhere:
        """An array that is not NumPy's."""

    class There:
        def read(self) -> Any:
            return Elsewhere()

    with pytest.raises(RuntimeError, match=r"Elsewhere of another device.*tensor\.cpu\(\)"):
        _array(cast("rg.Tensor", There()))
