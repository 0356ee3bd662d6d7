"""The derivatives of user Functions in a session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices.serving import CPU
from raygrad.client.functions.vjps import VjpSignature, WantedGradients, record_backward


class Both(rg.autograd.Function):
    """Two outputs, computed in NumPy; the second is an integer."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float = 2.0) -> Any:
        ctx.factor = factor
        return rg.from_numpy(x.numpy() * factor), rg.from_numpy(np.argsort(x.numpy()))

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        return rg.from_numpy(grad.numpy() * ctx.factor), None


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_h7_freeing_drops_one_claim_only(session: Any) -> None:
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x * 2.0

    x: Any = rg.tensor(3.0, dtype=rg.float64, requires_grad=True)
    y = Square.apply(x)
    (g,) = rg.autograd.grad(y, x, create_graph=True)
    y.backward()
    g.backward()
    assert float(x.grad) == 8.0


class Doubled(rg.autograd.Function):
    """Saves its input, which backward does not read."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


class Squared(Doubled):
    """Reads what it saved."""

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x


class SquaredOnce(Squared):
    """Reads what it saved, once only."""

    clear_saved_tensors_on_access = True


@pytest.mark.parametrize(
    ("function", "retain", "message"),
    [
        (Doubled, False, None),
        (Squared, True, None),
        (Squared, False, "second time"),
        (SquaredOnce, True, "only be acc"),
    ],
)
def test_cx10_what_was_saved_before_the_session_is_freed_by_its_passes(
    function: Any, retain: bool, message: str | None
) -> None:
    x: Any = rg.tensor([3.0, 1.0], dtype=rg.float64, requires_grad=True)
    y = function.apply(x)
    with rg.Session(workers=1) as session:
        y.backward(rg.ones(2, dtype=rg.float64), retain_graph=retain)
        if message is None:
            (again,) = rg.autograd.grad(y.sum(), x)
            assert again.tolist() == x.grad.tolist()
        else:
            with pytest.raises(RuntimeError, match=message):
                rg.autograd.grad(y.sum(), x)[0].tolist()
            session.close(discard=True)


def test_a_function_applied_before_the_session_is_differentiated_in_it() -> None:
    x: Any = rg.tensor([3.0, 1.0], dtype=rg.float64, requires_grad=True)
    y, _ = Both.apply(x, 5.0)
    with rg.Session(workers=1):
        (y * 2.0).sum().backward()
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [10.0, 10.0]


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"strict": True}], ids=["one", "two", "strict"])
@pytest.mark.parametrize("when", ["before", "inside", "in forward"])
def test_nd_13_hooks_of_a_node_from_before_the_session_run_once_in_its_pass(options: Any, when: str) -> None:
    def scaled(grads: Any) -> Any:
        return tuple([g * 3.0 for g in grads])

    def scaled_after(grads: Any, _: Any) -> Any:
        return tuple([g * 5.0 for g in grads])

    def register(node: Any) -> None:
        node.register_prehook(scaled)
        node.register_hook(scaled_after)

    class Twice(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            if when == "in forward":
                register(ctx)
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2.0

    x = rg.tensor([1.0], requires_grad=True)
    y = Twice.apply(x)
    if when == "before":
        register(y.grad_fn)
    with rg.Session(**options):
        if when == "inside":
            register(y.grad_fn)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [60.0]


def test_a_second_backward_without_retaining_raises_as_it_does_eagerly(session: Any) -> None:
    class Keeps(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    x: Any = rg.tensor([1.0], requires_grad=True)
    y = Keeps.apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.sum().backward()


class Double(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2.0 + y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 2.0 + 0.0 * x, None


def test_a_backward_whose_conduct_is_known_reports_nothing_more(session: Any) -> None:
    told: list[list[tuple[int, int]]] = []
    for _ in range(4):
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        y: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        value = x
        for _ in range(5):
            value = Double.apply(value, y)
        value.sum().backward()
        assert x.grad.numpy().tolist() == [32.0, 32.0]
        records = session.last_run.records
        told.append([(len(record.observations), len(record.undefined)) for record in records])
    assert told[0] == [(5, 5)]
    assert told[1:] == [[(0, 0)]] * 3


def test_h5_a_gradient_that_is_undefined_later_than_in_the_first_runs_is_none(session: Any) -> None:
    class Gate(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad if float(x.numpy()[0]) > 0 else None

    found: list[Any] = []
    for first in (1.0, 1.0, -1.0, 1.0, -1.0):
        x: Any = rg.tensor([first], requires_grad=True)
        Gate.apply(x).sum().backward()
        found.append(None if x.grad is None else x.grad.numpy().tolist())
    assert found == [[1.0], [1.0], None, [1.0], None]


def test_backwards_over_different_needs_are_not_taken_for_one_another(session: Any) -> None:
    x: Any = rg.tensor([1.0], requires_grad=True)
    y: Any = rg.tensor([3.0], requires_grad=True)

    class Product(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            a, b = ctx.saved_tensors
            needs = ctx.needs_input_grad
            return grad * b if needs[0] else None, grad * a if needs[1] else None

    for _ in range(2):
        value = Product.apply(x, y)
        (only,) = rg.autograd.grad(value, y, retain_graph=True)
        assert only.numpy().tolist() == [1.0]
        both = rg.autograd.grad(value, (x, y), retain_graph=True)
        assert [one.numpy().tolist() for one in both] == [[3.0], [1.0]]
        (other,) = rg.autograd.grad(value, x, rg.tensor([2.0]))
        assert other.numpy().tolist() == [6.0]


class Triple(Double):
    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 3.0 + 0.0 * x, None


def applied(cls: Any) -> Any:
    return cls.apply(rg.tensor([1.0, 2.0], requires_grad=True), rg.ones(2)).grad_fn


def cast() -> Any:
    return rg.autocast("cpu", dtype=rg.float16)


def test_what_is_known_of_undefined_gradients_is_told_apart_by_each_part_of_its_key(session: Any) -> None:
    leaf, base = session._recorder.leaf, applied(Double)
    gradient, saved = leaf(rg.ones(2)), leaf(rg.zeros(2))

    def key(**changed: Any) -> Any:
        usual: dict[str, Any] = {
            "base": base,
            "depth": 1,
            "items": [gradient, saved, None],
            "requires": (1,),
            "wanted": WantedGradients((0,), [((2,), rg.float32)], [CPU]),
            "differentiate": False,
            "refusal": "",
        }
        return VjpSignature(**(usual | changed)).learning.key

    part = applied(Double)
    part.__dict__["_of_part"] = True
    with cast():
        keys = [key()]
    keys += [
        key(),
        key(base=applied(Triple)),
        key(base=part),
        key(depth=2),
        key(items=[gradient, None, saved]),
        key(items=[leaf(rg.ones(3)), saved, None]),
        key(items=[leaf(rg.ones(2, dtype=rg.float64)), saved, None]),
        key(requires=()),
        key(wanted=WantedGradients((1,), [((2,), rg.float32)], [CPU])),
        key(differentiate=True),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == keys[1]


def test_how_a_backward_is_recorded_is_told_apart_by_each_part_of_its_key(session: Any) -> None:
    recorder, base = session._recorder, applied(Double)
    gradient = recorder.leaf(rg.ones(2))
    shapes = base._shapes

    def recorded(grad: Any = gradient, refusal: str = "") -> int:
        record_backward(base, [grad], refusal)
        return len(shapes)

    assert [recorded(), recorded()] == [1, 1]
    recorder.retaining = True
    assert recorded() == 2
    recorder.retaining = False
    assert recorded(refusal="it was freed") == 3
    with cast():
        assert recorded() == 4
    assert recorded(None) == 5
    assert recorded(recorder.leaf(rg.ones(3))) == 6
    assert recorded(recorder.leaf(rg.ones(2, dtype=rg.float64))) == 7
    for name, value, entries in (("_needed", (True, False), 8), ("_of_part", True, 9)):
        before = getattr(base, name)
        base.__dict__[name] = value
        assert recorded() == entries
        base.__dict__[name] = before
    assert recorded() == 9
    recorder.log.records.clear()  # none of this is to run
