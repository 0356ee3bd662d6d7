"""Arguments that must be tensors: a number is refused for one as by PyTorch, in functions, methods and in place."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd import ops
from raygrad.autograd.dispatch.tensor_arguments import tensor_positions

LIBRARIES = [
    pytest.param("raygrad", id="raygrad"),
    pytest.param("torch", id="torch", marks=pytest.mark.oracle),
]


@pytest.fixture(params=LIBRARIES)
def T(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "both are tensors": lambda T, x: T.maximum(x, 2.0),
    "both are tensors, the first": lambda T, x: T.maximum(2.0, x),
    "the first is a tensor": lambda T, x: T.eq(2.0, x),
    "one is a tensor": lambda T, x: T.pow(2, 3),
    "the only one": lambda T, x: T.sin(2.0),
    "the only one, of several ops": lambda T, x: T.nn.functional.softplus(2.0),
    "the only one, times a number": lambda T, x: T.deg2rad(2.0),
    "a matrix": lambda T, x: T.matmul(x, 2.0),
    "an index": lambda T, x: T.gather(x, 0, 1),
    "a source": lambda T, x: T.scatter_add(x, 0, T.tensor([0, 1]), 1.0),
    "one that may be left out": lambda T, x: T.nn.functional.linear(x, T.ones(2, 2), 1.0),
    "of a method": lambda T, x: x.maximum(2.0),
    "of a method of several ops": lambda T, x: x.addmm(2, x),
    "of a method with matrices": lambda T, x: x.matmul(2),
    "of a method in place": lambda T, x: x.lerp_(2.0, 0.5),
    "of another in place": lambda T, x: x.logical_and_(1),
    "a condition": lambda T, x: x.where(1, x),
    "of a method with a signature of its own": lambda T, x: x.equal(2),
    "bounds of two kinds": lambda T, x: T.clamp(x, 0.0, x),
}

TAKEN: dict[str, Callable[[Any, Any], Any]] = {
    "compared": lambda T, x: T.eq(x, 2.0),
    "a power": lambda T, x: T.pow(2.0, x),
    "an exponent": lambda T, x: T.pow(x, 2.0),
    "a first operand of arithmetic": lambda T, x: T.mul(2.0, x) + T.add(1, x) + T.sub(1, x) + T.div(1, x + 1),
    "a weight": lambda T, x: T.lerp(x, x * 2, 0.5),
    "what is scattered": lambda T, x: T.scatter(x, 0, T.tensor([0]), 5.0),
    "branches": lambda T, x: T.where(x > 1, 1.0, x),
    "bounds": lambda T, x: T.clamp(x, 0.5, 1.0),
    "what is looked for": lambda T, x: T.bucketize(1.5, x),
}


@pytest.mark.parametrize("which", REFUSED)
def test_a_number_is_no_tensor(T: Any, which: str) -> None:
    with pytest.raises(TypeError):
        REFUSED[which](T, T.tensor([1.0, 2.0]))


@pytest.mark.oracle
@pytest.mark.parametrize("which", TAKEN)
def test_where_pytorch_takes_a_number_it_is_taken(which: str) -> None:
    torch: Any = pytest.importorskip("torch")
    mine, theirs = (TAKEN[which](lib, lib.tensor([1.0, 2.0])).tolist() for lib in (rg, torch))
    assert mine == theirs


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: rg.maximum(x, 2.0), r"^maximum\(\): argument 'other' \(position 2\) must be Tensor, not float$"),
        (lambda x: x.maximum(2.0), r"^maximum\(\): argument 'other' \(position 1\) must be Tensor, not float$"),
        (lambda x: rg.maximum(x1=x, x2=2), r"^maximum\(\): argument 'other' \(position 2\) must be Tensor, not int$"),  # pyright: ignore[reportCallIssue]
        (lambda x: x.addmm(2, x), r"^addmm\(\): argument 'mat1' \(position 1\) must be Tensor, not int$"),
        (lambda x: rg.sin(2), r"^sin\(\): argument 'input' \(position 1\) must be Tensor, not int$"),
        (lambda x: x.equal(2), r"^equal\(\): argument 'other' \(position 1\) must be Tensor, not int$"),
    ],
)
def test_the_error_names_the_argument_as_its_caller_counts_it(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(rg.ones(2))


def test_in_a_session_as_eagerly() -> None:
    with rg.Session():
        x: Any = rg.ones(2)
        for call in (lambda: rg.maximum(x, 2.0), lambda: x.maximum(2.0), lambda: rg.sin(2.0), lambda: rg.pow(2, 3)):
            with pytest.raises(TypeError, match="must be Tensor"):
                call()


def test_scalars_of_numpy_and_arrays_are_no_numbers() -> None:
    x: Any = rg.ones(2).numpy()
    assert rg.maximum(x[0], x * 3).tolist() == [3, 3]


def test_the_library_itself_computes_with_numbers() -> None:
    assert ops.maximum(rg.tensor([1.0, 3.0]), 2.0).tolist() == [2, 3]


def test_methods_that_ask_first_are_found_by_their_names() -> None:
    for name in ("maximum", "addmm", "gather"):
        method = getattr(rg.Tensor, name)
        assert pickle.loads(pickle.dumps(method)) is method


@pytest.mark.parametrize(
    ("name", "positions"),
    [("maximum", (0, 1)), ("eq", (0,)), ("sum", ()), ("mul", ()), ("lerp", (0, 1)), ("scatter_add", (0, 2, 3))],
)
def test_which_arguments_must_be_tensors(name: str, positions: tuple[int, ...]) -> None:
    assert tensor_positions(getattr(ops, name)) == positions
