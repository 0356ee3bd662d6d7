"""An array or a NumPy scalar that forward returns for a tensor is told at once, eagerly and in sessions (OU-02)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import raygrad as rg

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "eager": nullcontext,
    "in process": rg.Session,
    "strict": lambda: rg.Session(strict=True),
}

SLIPS: dict[str, Callable[[Any], Any]] = {
    "an array": lambda x: x.numpy() * 2,
    "an array of whole numbers": lambda x: np.arange(3),
    "a NumPy scalar": lambda x: x.numpy().sum(),
    "an array beside a tensor": lambda x: (x * 2, x.numpy()),
    "a NumPy scalar beside a tensor": lambda x: (x * 2, np.float64(1.0)),
    "a list of arrays": lambda x: [x.numpy(), x.numpy()],
    "arrays alone": lambda x: (x.numpy(), x.numpy()),
}


def returning(make: Callable[[Any], Any]) -> Any:
    class Slip(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return make(x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    return Slip


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_ou_02_an_array_returned_for_a_tensor_is_an_error_that_names_the_remedy(mode: Any, requires_grad: bool) -> None:
    with mode():
        for what, make in SLIPS.items():
            x = rg.tensor([1.0, 2.0], requires_grad=requires_grad)
            with pytest.raises(TypeError, match=r"Slip\.forward returned .*rg\.from_numpy"):
                pytest.fail(f"{what}: {returning(make).apply(x)}")


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_ou_02_which_output_is_an_array_is_said(mode: Any) -> None:
    with mode(), pytest.raises(TypeError, match="as output 1"):
        returning(lambda x: (x * 2, x.numpy())).apply(rg.ones(2))


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_ou_02_what_no_tensor_could_be_is_an_output_as_it_is(mode: Any) -> None:
    def others(x: Any) -> Any:
        return x * 2, {"mean": x.numpy()}, [x.numpy()], np.array(["a", "b"]), 3.0

    with mode():
        y, table, beside, names, number = returning(others).apply(rg.ones(2, requires_grad=True))
        y.sum().backward()
        assert (table["mean"].tolist(), beside[0].tolist(), names.tolist(), number) == ([1, 1], [1, 1], ["a", "b"], 3.0)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_ou_02_a_setup_context_function_is_told_as_well(mode: Any) -> None:
    class Separate(rg.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return np.exp(x.numpy())

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

    with mode(), pytest.raises(TypeError, match=r"Separate\.forward returned a numpy\.ndarray"):
        Separate.apply(rg.ones(2, requires_grad=True))


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_ou_02_beside_a_tensor_it_is_how_forward_hands_an_array_to_setup_context(mode: Any) -> None:
    class Cube(rg.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            given = x.numpy()
            return rg.tensor(given**3), given**2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.squared = output[1]

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            assert grads[1] is None
            return grads[0] * rg.from_numpy(3 * ctx.squared)

    with mode():
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        cubed, squared = Cube.apply(x)
        cubed.sum().backward()
        assert (cubed.tolist(), squared.tolist(), x.grad.tolist()) == ([1.0, 8.0], [1.0, 4.0], [3.0, 12.0])  # pyright: ignore
