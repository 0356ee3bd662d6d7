"""Errors of the functions that the package offers: what is of a wrong type is named, with PyTorch's type of error."""

# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd import ops
from raygrad.autograd.dispatch.argument_errors import explain_error, with_argument_errors

WRONG = {"None": None, "str": "a", "object": object()}

SPACES = {"": "", "linalg.": "linalg", "fft.": "fft", "nn.functional.": "nn.functional"}


def space(T: Any, path: str) -> Any:
    found = T
    for part in path.split(".") if path else ():
        found = getattr(found, part)
    return found


OFFERED = {
    f"{prefix}{name}": (path, name)
    for prefix, path in SPACES.items()
    for name in (ops.__all__ if not path else space(rg, path).__all__)
}

FURTHER = "zeros_like ones_like full_like empty_like rand_like randn_like randperm zeros ones empty".split()
OFFERED.update({name: ("", name) for name in FURTHER})

OTHER_ERRORS = {
    "einsum": "PyTorch first counts its arguments, which is a ValueError",
}
"""Functions that refuse with another type of error than PyTorch, and why."""

TAKEN = {
    **{
        ("None", name): "None is all dimensions here, as for sums"
        for name in (
            "cumulative_sum cumulative_prod logsumexp max median min nanmedian prod squeeze squeeze_copy"
        ).split()
    },
    **{
        ("None", f"fft.{name}"): "None is what it is for fftn"
        for name in "fft2 hfft2 ifft2 ihfft2 irfft2 rfft2".split()
    },
}
"""Dimensions that are taken here and not there, and why."""


def raised(call: Callable[[], Any]) -> BaseException | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def of_names(T: Any, place: tuple[str, str]) -> Any:
    path, name = place
    return getattr(space(T, path), name, None)


@pytest.mark.oracle
@pytest.mark.parametrize("name", OFFERED)
def test_a_first_argument_of_a_wrong_type_is_refused_as_by_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = of_names(rg, OFFERED[name]), of_names(torch, OFFERED[name])
    if theirs is None:
        pytest.skip("PyTorch has no such function")
    for value in WRONG.values():
        expected = raised(lambda value=value: theirs(value))
        if expected is None:
            continue
        error = raised(lambda value=value: mine(value))
        assert error is not None, f"{name}({value!r}) is taken"
        if isinstance(expected, TypeError | AttributeError):  # the latter is what its functions in Python come to
            assert isinstance(error, TypeError), f"{name}({value!r}): {error!r}, not {expected!r}"
        elif name not in OTHER_ERRORS:
            assert isinstance(error, builtin(expected)), f"{name}({value!r}): {error!r}, not {expected!r}"


def builtin(error: BaseException) -> Any:
    return next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")


@pytest.mark.oracle
@pytest.mark.parametrize(
    "name", [name for name, place in OFFERED.items() if "dim" in str(inspect.signature(of_names(rg, place)))]
)
def test_a_dimension_of_a_wrong_type_is_refused_as_by_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = of_names(rg, OFFERED[name]), of_names(torch, OFFERED[name])
    if theirs is None:
        pytest.skip("PyTorch has no such function")
    for kind, value in WRONG.items():
        expected = raised(lambda value=value: theirs(torch.ones(2, 3), dim=value))
        if not isinstance(expected, TypeError):
            continue
        error = raised(lambda value=value: mine(rg.ones(2, 3), dim=value))
        if (kind, name) in TAKEN:
            assert error is None, f"{name} does not take it any more: {error!r}"
        else:
            assert isinstance(error, TypeError), f"{name}(x, dim={value!r}): {error!r}, not {expected!r}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rg.sum(None), r"^sum\(\): argument 'input' \(position 1\) must be Tensor, not NoneType$"),
        (lambda: rg.reshape("a", (1,)), r"^reshape\(\): argument 'input' \(position 1\) must be Tensor, not str$"),
        (
            lambda: rg.sum(rg.ones(2), "a"),
            r"^sum\(\): argument 'dim' \(position 2\) must be int or tuple of ints, not str$",
        ),
        (lambda: rg.transpose(rg.ones(2, 2), 0, "b"), r"argument 'dim1' \(position 3\) must be int, not str"),
        (lambda: rg.matmul(rg.ones(2, 2), None), r"argument 'other' \(position 2\) must be Tensor, not NoneType"),
        (
            lambda: rg.cat([rg.ones(2), "a"]),
            r"argument 'tensors' .* must be tuple of Tensors, not list of \(Tensor, str\)",
        ),
        (lambda: rg.cumsum(rg.ones(2), dim=None), r"argument 'dim' .*must be int, not NoneType"),
        (lambda: rg.block_diag(rg.ones(2), object()), r"argument 'tensors' \(position 2\) must be Tensor, not object"),
        (lambda: rg.linalg.inv(None), r"inv\(\): argument 'A' \(position 1\) must be Tensor, not NoneType"),
        (lambda: rg.exp(object()), r"exp\(\): argument '\w+' \(position 1\) must be Tensor, not object"),
        (lambda: rg.ones("a"), r"sizes must be ints, or one tuple of ints, not 'a'"),
        (lambda: rg.set_default_dtype(None), "floating-point"),
    ],
)
def test_the_error_names_function_argument_and_what_was_expected(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_methods_refuse_dimensions_of_a_wrong_type() -> None:
    x: Any = rg.ones(2, 3)
    for value in ("a", object(), 1.5):
        for method in "sum mean amax cumsum softmax unsqueeze select narrow flip".split():
            more = {"select": (0,), "narrow": (0, 1)}.get(method, ())
            with pytest.raises(TypeError):
                getattr(x, method)(value, *more)
        with pytest.raises(TypeError):
            x.reshape(value if not isinstance(value, float) else "b")


def test_other_errors_are_as_they_were() -> None:
    with pytest.raises(RuntimeError, match="multiple times"):
        rg.sum(rg.ones(2, 2), (0, 0))
    with pytest.raises(IndexError, match="Dimension out of range"):
        rg.sum(rg.ones(2), 3)
    with pytest.raises(TypeError, match=r"softmax\(\) missing 1 required positional argument"):
        rg.softmax(rg.ones(2))
    error = ValueError("as it was")
    assert explain_error(ops.sum, (rg.ones(2), None, False), {"dtype": None}, error) is error


def test_a_door_has_the_name_the_signature_and_the_results_of_its_function() -> None:
    tables = {"raygrad.linalg": ops.LINALG, "raygrad.fft": ops.FFT, "raygrad.nn.functional": ops.FUNCTIONAL}
    for module, table in tables.items():
        for name, function in ops.offered(table, module).items():
            assert inspect.signature(function) == inspect.signature(table[name]), name
            assert pickle.loads(pickle.dumps(function)) is function, name
            assert cloudpickle.loads(cloudpickle.dumps(function)) is function, name
    for name in ops.__all__:
        function = getattr(rg, name)
        assert pickle.loads(pickle.dumps(function)) is function, name
    assert np.array_equal(rg.sum(rg.ones(2, 3), 0).numpy(), [2.0, 2.0, 2.0])


def test_a_function_that_hands_its_arguments_to_one_op_has_no_door() -> None:
    assert rg.exp is ops.exp
    assert rg.sum is not ops.sum
    assert with_argument_errors(ops.sum, "raygrad", "sum") is rg.sum
