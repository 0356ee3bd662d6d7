"""Sums and multiples of outputs whose shapes no run has shown yet."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.tensor.presumed_tensor import DeferredTensor
from raygrad.errors import SessionError, ShapeError


class Part(rg.autograd.Function):
    """Returns a part of its argument, as an option says."""

    @staticmethod
    def forward(ctx: Any, x: Any, part: str) -> Any:
        ctx.save_for_backward(x)
        if part == "broken":
            raise ValueError("broken")
        return {"sum": x.sum(), "all": x * 1.0, "double": x.double(), "first": x[:1] * 3.0}[part]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (grad.sum() * x).to(x.dtype), None


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def known(*values: float) -> Any:
    """Return a leaf over which `Part` has run."""
    x: Any = rg.tensor([float(value) for value in values], requires_grad=True)
    Part.apply(x, "all").tolist()
    return x


def is_deferred(tensor: Any) -> bool:
    return type(tensor) is DeferredTensor


def test_an_ensemble_that_is_added_up_runs_as_one(session: Any) -> None:
    x = known(0.5, 1.5)
    before = session.last_run
    loss: Any = 0.0
    for part in ("sum", "double", "first", "sum"):
        loss = loss + Part.apply(x, part).sum() * 0.5
    loss = (2.0 - loss) / 3.0 - x.sum()
    assert is_deferred(loss)
    assert session.last_run is before
    loss.backward()
    assert session.last_run.number == before.number + 2  # the members, then all else
    assert loss.item() == pytest.approx((2.0 - (2.0 + 2.0 + 1.5 + 2.0) / 2.0) / 3.0 - 2.0)


METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "sum of two": lambda y, z: y + z,
    "sum of two, reversed": lambda y, z: z + y,
    "difference": lambda y, z: y - z,
    "difference, reversed": lambda y, z: z - y,
    "sum with a number": lambda y, z: y + 1,
    "difference from a number": lambda y, z: 1.5 - y,
    "product": lambda y, z: 3 * y * 0.5,
    "quotient": lambda y, z: y / 7.0,
    "negative": lambda y, z: -y,
    "reduction": lambda y, z: y.sum() + y.mean(),
    "twice": lambda y, z: y + y,
    "of each other": lambda y, z: (y + z) - (y - z).sum(),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("part", ["sum", "all", "double", "first"])
def test_each_gives_the_bits_that_it_gives_eagerly(method: str, part: str) -> None:
    def run() -> Any:
        x = known(0.1, 0.7, 1.3)
        y, z = Part.apply(x, part), (x * 0.3).sum()
        made = METHODS[method](y, z)
        deferred = is_deferred(made)
        made.sum().backward()
        return deferred, made.dtype, made.detach().tolist(), x.grad.tolist()

    eager = run()
    with rg.Session(workers=1):
        assert run() == (part != "all", *eager[1:])


def test_what_would_save_a_tensor_waits(session: Any) -> None:
    x = known(1, 2)
    z = x * 1.0
    for use in (
        lambda y: y * z,
        lambda y: z * y,
        lambda y: y / z,
        lambda y: y * y,
        lambda y: y + x,
        lambda y: y.sum(0),
        lambda y: y.mean(dim=0),
        lambda y: y + z[:1],
        lambda y: y + True,
    ):
        y = Part.apply(x, "first")
        session._observed.signatures.clear()
        assert type(use(Part.apply(x, "first"))) is rg.Tensor
        assert y.tolist() == [3.0]


def test_modes_are_those_of_the_call(session: Any) -> None:
    x = known(1, 2)
    with rg.no_grad():
        plain = Part.apply(x, "sum") + 1.0
    with rg.enable_grad(), rg.place(worker=0):
        flowing = Part.apply(x, "first") + 1.0
    assert is_deferred(plain)
    assert is_deferred(flowing)
    with rg.no_grad(), rg.autocast("cpu"):
        assert flowing.requires_grad
    assert flowing._data.record.pin == 0
    assert not plain.requires_grad
    assert plain._data.record.pin == -1
    with rg.autocast("cpu"):
        assert not is_deferred(Part.apply(known(1, 2, 3), "double") + 1.0)


def test_the_line_is_that_of_the_call(session: Any) -> None:
    x = known(1, 2)
    made = Part.apply(x, "sum") + 1.0
    line = test_the_line_is_that_of_the_call.__code__.co_firstlineno + 2
    assert f":{line} in test_the_line" in str(made._data.record.site)


def test_operands_are_what_they_were(session: Any) -> None:
    x = known(1, 2)
    z = x.sum() * 1.0
    made = Part.apply(x, "sum") + z
    z.mul_(10.0)
    assert is_deferred(made)
    made.backward()
    assert made.item() == 6.0
    assert x.grad.tolist() == [2.0, 3.0]


def test_nodes_stand_where_their_calls_did() -> None:
    options: dict[str, Any] = {}

    def orders() -> list[str]:
        seen: list[str] = []
        x = known(1, 2)
        nodes = {"a": Part.apply(x, "sum") + 1.0, "b": x * 2.0, "c": Part.apply(x, "first").mean(), "d": x * 3.0}
        for name, one in nodes.items():
            one.grad_fn.register_prehook(lambda grads, name=name: seen.append(name), **options)
        total: Any = sum(one.sum() for one in nodes.values())
        total.backward()
        return seen

    eager = orders()
    options["client"] = True
    with rg.Session(workers=1):
        assert orders() == eager


def test_a_long_sum_needs_no_deep_stack(session: Any) -> None:
    x = known(1, 2)
    loss = Part.apply(x, "sum")
    for _ in range(3000):
        loss = loss + 1.0
    assert is_deferred(loss)
    assert loss.item() == 3003.0


def test_shapes_that_do_not_fit_are_refused_where_they_are_known(session: Any) -> None:
    x = known(1, 2, 3)
    made = Part.apply(known(1, 2), "double") + (x * 1.0)
    with pytest.raises(RuntimeError, match="size"):
        _ = made.shape


def test_a_member_that_fails_is_the_error_of_the_sum(session: Any) -> None:
    x = known(1, 2)
    loss = Part.apply(x, "sum") + Part.apply(x, "broken")
    with pytest.raises(ValueError, match="broken"):
        loss.backward()


def test_what_nobody_holds_is_not_recorded(session: Any) -> None:
    x = known(1, 2)
    made = Part.apply(x, "sum") + 1.0
    more = made * 2.0
    assert len(session._log.operations) == 2
    del made, more
    gc.collect()
    assert not session._log.operations


def test_what_is_held_at_the_end_of_a_session_is_there() -> None:
    x = known(1, 2)
    with rg.Session(workers=1):
        Part.apply(x, "all").tolist()
        made = Part.apply(x, "sum") + 1.0
        more = made * 2.0
        assert is_deferred(more)
    assert (made.item(), more.item()) == (4.0, 8.0)


def test_what_a_session_dropped_says_so() -> None:
    x = known(1, 2)
    session = rg.Session(workers=1)
    session.__enter__()
    Part.apply(x, "all").tolist()
    made = Part.apply(x, "sum") + 1.0
    session.__exit__(ValueError, ValueError(), None)
    with pytest.raises(SessionError, match="dropped when its session was closed"):
        made.tolist()


class MayFail(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, how: str) -> Any:
        if how == "fails":
            raise ValueError("this member fails")
        return rg.from_numpy(x.numpy() * 2)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2, None


@pytest.mark.parametrize(("how", "discard"), [("fails", False), ("works", True)])
def test_what_a_session_leaves_deferred_says_so_when_it_is_read(how: str, discard: bool) -> None:
    session = rg.Session().__enter__()
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    assert MayFail.apply(x, "known").sum().item() == 6.0
    loss: Any = MayFail.apply(x, "other").sum() + MayFail.apply(x, how).sum()
    with pytest.raises(ValueError, match="this member fails") if how == "fails" else nullcontext():
        session.close(discard=discard)
    for look in (lambda: loss.item(), lambda: loss.shape, lambda: loss.backward()):
        with pytest.raises(SessionError, match="dropped when its session was closed"):
            look()


@pytest.mark.parametrize("make", [lambda one, other: one + other, lambda one, other: other - one], ids=["add", "sub"])
def test_an_operation_that_its_operands_do_not_allow_is_told_with_its_line(session: Any, make: Any) -> None:
    known(1, 2)
    x, y = (rg.tensor([1.0] * count, requires_grad=True) for count in (2, 3))
    with pytest.raises(ShapeError) as eager:
        make(x * 1.0, y * 1.0)
    made = make(Part.apply(x, "double"), Part.apply(y, "double"))
    assert is_deferred(made)
    for _ in range(2):
        with pytest.raises(ShapeError) as late:
            made.tolist()
        assert str(late.value) == str(eager.value)
        assert [note for note in late.value.__notes__ if "test_deferred_operations.py" in note]


def test_an_operation_that_nobody_looked_at_is_told_of_when_the_session_ends() -> None:
    held: list[Any] = []

    def program(look: bool) -> None:
        with rg.Session(workers=1):
            known(1, 2)
            x, y = (rg.tensor([1.0] * count, requires_grad=True) for count in (2, 3))
            held.append((Part.apply(x, "double") + Part.apply(y, "double")) * 2.0)
            if look:
                with pytest.raises(ShapeError, match="size of tensor a"):
                    held[-1].tolist()

    program(look=True)
    with pytest.raises(ShapeError, match="size of tensor a"):
        program(look=False)


def test_an_operation_that_no_operand_knows_is_a_type_error(session: Any) -> None:
    class Compares(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x > y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None, None

    x = rg.tensor([1.0, 2.0])
    with pytest.raises((TypeError, RuntimeError)) as eager:
        _ = (x > 1.0) - (x > 2.0)
    Compares.apply(x, x).tolist()
    y = rg.tensor([1.0])
    made = Compares.apply(x, y) - Compares.apply(x, y)
    assert is_deferred(made)
    with pytest.raises(eager.type) as late:
        made.tolist()
    assert str(late.value) == str(eager.value)


@pytest.mark.usefixtures("often_switched_threads")
def test_several_threads_may_look_at_one_result() -> None:
    with rg.Session(workers=2):
        x = known(1, 2)
        y: Any = rg.tensor([1.0, 2.0, 3.0])
        made: list[Any] = []
        for _ in range(10):
            total = Part.apply(x, "double") + Part.apply(y, "sum") * 2.0
            threads = [threading.Thread(target=lambda one=total: made.append(one.tolist())) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert made == [[13.0, 14.0]] * 40
