"""What is known of Functions: by running, or by their infer."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.core.recorder import FixedOutput
from raygrad.errors import GraphError


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_a_static_infer_avoids_the_first_wait(session: Any) -> None:
    class Known(rg.autograd.Function):
        @staticmethod
        def infer(x: Any) -> Any:
            return x.shape, x.dtype

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0] * 2.0

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    y = Known.apply(x)
    assert session.last_run is None
    y.sum().backward()
    assert x.grad.numpy().tolist() == [2.0, 4.0]


def test_h5_an_undefined_gradient_is_learned_and_then_known_without_waiting(session: Any) -> None:
    class Half(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    for _ in range(2):
        a: Any = rg.tensor([1.0], requires_grad=True)
        b: Any = rg.tensor([1.0], requires_grad=True)
        Half.apply(a, b).sum().backward()
        assert b.grad is None
        assert a.grad.numpy().tolist() == [1.0]
    assert next(iter(session._observed.gradients.values()))[0] == (1,)


def test_a_fixed_output_is_learned_and_then_known_without_waiting(session: Any) -> None:
    class Pair(rg.autograd.function.NestedIOFunction):
        def forward_extended(self, x: Any) -> Any:
            return {"double": x * 2, "none": [None]}

        def backward_extended(self, grads: Any) -> Any:
            return grads["double"] * 2

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    first = Pair.apply(x)
    run = session.last_run
    second = Pair.apply(x * 1)
    assert session.last_run is run
    assert second["none"] == [None]
    (first["double"] + second["double"]).sum().backward()
    assert x.grad.numpy().tolist() == [4.0, 4.0]


def test_an_infer_that_does_not_hold_is_told_so(session: Any) -> None:
    class Wrong(rg.autograd.Function):
        @staticmethod
        def infer(x: Any) -> Any:
            return (x.shape[0] + 1,), x.dtype

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

    y = Wrong.apply(rg.tensor([1.0, 2.0]))
    message = (
        r"the infer of 'Wrong' \(\S*test_observed_signature\.py:\d+ in test_\w+\) said that its outputs are "
        r"float32\[3\], but its forward returned float32\[2\]: let infer describe"
    )
    with pytest.raises(GraphError, match=message):
        y.numpy()


@pytest.mark.parametrize("said", [7, ((2,),), ("x", "y", "z"), ((2,), "nosuch"), [((2,), "float32"), 3]])
def test_an_infer_that_says_nothing_of_use_is_named_with_the_line(session: Any, said: Any) -> None:
    class Odd(rg.autograd.Function):
        @staticmethod
        def infer(x: Any) -> Any:
            return said

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

    with pytest.raises(
        TypeError, match=r"Odd\.infer must return \(shape, dtype\).* at \S*test_observed_signature\.py:\d+ in test_"
    ):
        Odd.apply(rg.tensor([1.0, 2.0]))


class Told(FixedOutput):
    """Plain data that a Function returns beside its tensors."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Told) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]


class Telling(rg.autograd.Function):
    """Says beforehand all that it returns: a tensor, one without gradient, and plain data."""

    said = "text"

    @classmethod
    def infer(cls, x: Any) -> Any:
        return (x.shape, x.dtype), (x.shape, x.dtype, False), Told(cls.said)

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        count = x * 0.0
        ctx.mark_non_differentiable(count)
        return x * 2.0, count, Told("text")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2.0


def test_an_infer_may_tell_what_has_no_gradient_and_what_is_no_tensor(session: Any) -> None:
    for _ in range(2):
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        twice, count, told = Telling.apply(x)
        assert told == Told("text")
        assert (twice.requires_grad, count.requires_grad) == (True, False)
        assert session.last_run is None or not session._observed.first_runs
        twice.sum().backward()
        assert x.grad.numpy().tolist() == [2.0, 2.0]


def test_plain_data_that_an_infer_told_wrongly_is_an_error() -> None:
    class Wrong(Telling):
        said = "another text"

    session = rg.Session(workers=1)
    with pytest.raises(GraphError, match=r"the infer of 'Wrong' .* said"), session:
        Wrong.apply(rg.tensor([1.0], requires_grad=True))[0].sum().backward()
    session.close(discard=True)


def test_an_infer_may_leave_it_to_a_run(session: Any) -> None:
    class Unsure(Telling):
        @classmethod
        def infer(cls, x: Any) -> Any:
            return None

    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    Unsure.apply(x)[0].sum().backward()
    assert x.grad.numpy().tolist() == [2.0, 2.0]
    assert list(session._observed.first_runs) == ["Unsure"]
