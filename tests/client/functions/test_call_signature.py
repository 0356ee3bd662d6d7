"""What is known of applications: looked up by what they were given, and for as long as the class is as it was."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.client.functions import call_signature
from raygrad.client.functions.call_signature import context_of
from raygrad.client.functions.observed_signature import FunctionSignature
from raygrad.proto.ir.specs import LIVE, STAYS

from ...graph_nodes import NOTHING_SHOWN


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_a_class_that_is_patched_is_looked_up_anew(session: Any) -> None:
    class Noisy(rg.autograd.Function):
        effects = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            rg.emit("ran", 1)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    seen: list[int] = []
    session.on("ran", seen.append)
    x = rg.tensor([1.0])
    for effects, times in ((False, 1), (False, 1), (True, 2), (False, 2)):  # the first time it runs to be resolved
        Noisy.effects = effects
        Noisy.apply(x)
        session._submitter.submit()
        session._waiter.wait_for_everything()
        assert len(seen) == times


def test_arguments_that_differ_in_what_is_recorded_are_not_taken_for_one_another(session: Any) -> None:
    class Twice(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float) -> Any:
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.factor, None

    for _ in range(2):
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        for factor in (2.0, 3.0):
            y = Twice.apply(x, factor)
            assert y.requires_grad
            (grad,) = rg.autograd.grad(y.sum(), x)
            assert grad.numpy().tolist() == [factor] * 2
        assert not Twice.apply(x.detach(), 2.0).requires_grad
        with rg.no_grad():
            assert not Twice.apply(x, 2.0).requires_grad
        long: Any = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        Twice.apply(long, 2.0).sum().backward()
        assert long.grad.numpy().tolist() == [2.0] * 3


def test_what_is_known_of_contexts_is_one_entry_per_size_and_no_more_than_so_many() -> None:
    def known(holds: int) -> FunctionSignature:
        return FunctionSignature(NOTHING_SHOWN, (), (), (), None, None, False, saves=True, holds=holds)

    first = context_of(known(64), 0)
    assert context_of(known(64), 0) is first
    assert context_of(known(64), STAYS) is not first
    kept = call_signature._context_entry.cache_info
    most = kept().maxsize
    assert most is not None
    for size in range(most + 8):
        context_of(known(size), LIVE)
    assert kept().currsize == most


class Copies(rg.autograd.Function):
    @staticmethod
    def forward(x: Any, *others: Any, scale: Any = 1.0, shift: float = 1.0) -> Any:
        return x * 1.0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], *[None] * (len(ctx.needs_input_grad) - 1)


class CopiesToo(Copies):
    @staticmethod
    def forward(x: Any, *others: Any, scale: Any = 1.0, shift: float = 1.0) -> Any:
        return x * 1.0 + 0.0


class AddsTo(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.mark_dirty(x)
        return x.add_(y)


def vector(*values: float, grad: bool = False) -> Any:
    return rg.tensor(list(map(float, values)), requires_grad=grad)


def _without_grad(call: Any) -> Any:
    with rg.no_grad():
        return call()


def _cast(call: Any) -> Any:
    with rg.autocast("cpu", dtype=rg.float16):
        return call()


X, Y = vector(1, 2), vector(3, 4)
LEAF = vector(1, 2, grad=True)
PAIRS: dict[str, tuple[Any, Any]] = {
    "code": (lambda: Copies.apply(X), lambda: CopiesToo.apply(X)),
    "recording": (lambda: Copies.apply(LEAF), lambda: _without_grad(lambda: Copies.apply(LEAF))),
    "casting": (lambda: Copies.apply(X), lambda: _cast(lambda: Copies.apply(X))),
    "shape": (lambda: Copies.apply(X), lambda: Copies.apply(vector(1))),
    "dtype": (lambda: Copies.apply(X), lambda: Copies.apply(X.double())),
    "layout": (lambda: Copies.apply(rg.ones(2, 3)), lambda: Copies.apply(rg.ones(3, 2).t().detach())),
    "value of a constant": (lambda: Copies.apply(X, 2), lambda: Copies.apply(X, 3)),
    "type of a constant": (lambda: Copies.apply(X, 1), lambda: Copies.apply(X, True)),
    "whether an argument is given twice": (lambda: Copies.apply(X, X), lambda: Copies.apply(X, Y)),
    "which argument is given twice": (lambda: Copies.apply(X, Y, X), lambda: Copies.apply(X, Y, Y)),
    "which argument requires grad": (
        lambda: Copies.apply(LEAF, X),
        lambda: Copies.apply(LEAF, vector(3, 4, grad=True)),
    ),
    "value of a keyword": (lambda: Copies.apply(X, scale="2"), lambda: Copies.apply(X, scale="3")),
    "name of a keyword": (lambda: Copies.apply(X, scale=2.0), lambda: Copies.apply(X, shift=2.0)),
    "which argument an object holds": (lambda: Copies.apply(X, Y, [X]), lambda: Copies.apply(X, Y, [Y])),
    "shape of what an object holds": (lambda: Copies.apply(X, [Y]), lambda: Copies.apply(X, [vector(1)])),
}


@pytest.mark.parametrize("component", PAIRS)
def test_applications_that_differ_in_one_thing_alone_are_known_apart(session: Any, component: str) -> None:
    one, other = PAIRS[component]
    for call, entries in ((one, 1), (one, 1), (other, 2), (one, 2), (other, 2)):
        call()
        session.run()
        session._waiter.wait_for_everything()
        assert len(session._observed.signatures) == entries


def test_applications_to_other_places_of_one_memory_are_known_apart(session: Any) -> None:
    for begin, entries in ((2, 1), (4, 2), (2, 2), (4, 2)):
        memory = vector(1, 2, 3, 4, 5, 6) * 1.0
        result = AddsTo.apply(memory[:2], memory[begin : begin + 2])
        assert len(session._observed.signatures) == entries
        assert result.tolist() == [2.0 + begin, 4.0 + begin]


def test_applications_whose_code_meets_gradients_of_other_leaves_are_known_apart(session: Any) -> None:
    first, second = vector(1, 2, grad=True), vector(3, 4, grad=True)

    class Reads(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            for leaf in (first, second):
                if leaf.grad is not None:
                    x = x + leaf.grad
            return x * 1.0

    for number, (one, other, entries) in enumerate(
        ((None, None, 1), (X, None, 2), (None, X, 3), (X, X, 4), (None, X, 4), (X, None, 4))
    ):
        first.grad, second.grad = one, other
        times = 1 + (one is not None) + (other is not None)
        assert Reads.apply(X).tolist() == [1.0 * times, 2.0 * times], number
        assert len(session._observed.signatures) == entries


def test_applications_that_may_add_to_a_gradient_of_another_layout_are_known_apart(session: Any) -> None:
    leaf: Any = rg.ones(2, 3).requires_grad_()

    class Adds(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            with rg.enable_grad():
                (leaf * 2.0).backward(grad)
            return grad

    for grad, entries in ((None, 1), (rg.ones(2, 3), 2), (None, 2), (rg.ones(2, 3), 2)):
        leaf.grad = grad
        Adds.apply(leaf.detach())
        assert len(session._observed.signatures) == entries


def test_what_is_known_of_contexts_is_told_apart_by_size_by_device_and_by_whether_they_stay() -> None:
    shown: Any = ()
    known = FunctionSignature(shown, (), (), (), None, None, False, saves=True, holds=64)
    entries = [
        context_of(known, 0),
        context_of(known, STAYS),
        context_of(known._replace(holds=65), 0),
        context_of(known._replace(on=(("cuda:0", 8),)), 0),
    ]
    assert len({id(entry) for entry in entries}) == 4


def test_what_applications_share_holds_for_one_class_and_for_what_was_shown_of_it(session: Any) -> None:
    for _ in range(2):
        Copies.apply(X)
    (shared,) = session._recorder.functions.call_signatures.values()
    assert shared.serves(Copies, shared.signature)
    assert not shared.serves(CopiesToo, shared.signature)
    assert not shared.serves(Copies, shared.signature._replace(holds=shared.signature.holds + 1))
    assert not shared.serves(Copies, None)
