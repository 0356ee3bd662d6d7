"""Calls of a known Function with other specs or options, recorded before their runs have shown what they return."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.errors import DroppedError, GraphError, SessionError


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


class Reduce(rg.autograd.Function):
    """Returns an argument reduced as an option says."""

    @staticmethod
    def forward(ctx: Any, x: Any, how: str) -> Any:
        ctx.how = how
        ctx.save_for_backward(x)
        if how == "same":
            return x
        if how == "view":
            return x[1:]
        if how == "signs":
            signs = (x > 0.0) * 1.0
            ctx.mark_non_differentiable(signs)
            return signs
        return {"sum": x.sum(), "first": x[:1] * 1.0, "double": x.double(), "none": x * 1.0}[how]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        if ctx.how == "first":
            grad = rg.cat([grad, rg.zeros(x.shape[0] - 1)])
        if ctx.how == "view":
            grad = rg.cat([rg.zeros(1), grad])
        return grad.to(x.dtype) * x / x + x * 0.0, None


def leaf(*values: float) -> Any:
    return rg.tensor([float(value) for value in values], requires_grad=True)


def runs(session: Any) -> int:
    return 0 if session.last_run is None else session.last_run.number


def test_further_calls_do_not_wait_and_run_together(session: Any) -> None:
    x = leaf(1, 2)
    assert Reduce.apply(x, "none").tolist() == [1.0, 2.0]
    before = runs(session)
    outputs = [Reduce.apply(x, how) for how in ("sum", "first", "double")] + [Reduce.apply(leaf(1, 2, 3), "sum")]
    assert runs(session) == before
    assert outputs[0].shape == ()
    assert runs(session) == before + 1
    assert [one.dtype for one in outputs] == [rg.float32, rg.float32, rg.float64, rg.float32]
    assert [one.tolist() for one in outputs] == [3.0, [1.0], [1.0, 2.0], 6.0]
    assert runs(session) == before + 1
    total: Any = sum(one.sum() for one in outputs)
    total.backward()
    assert x.grad.tolist() == [3.0, 2.0]


PENDING = "tensor(pending, shape=(), dtype=float32, grad_fn=<ReduceBackward>)"


@pytest.mark.parametrize(
    "look",
    [
        lambda y: y.shape == (),
        lambda y: y.requires_grad,
        lambda y: y.grad_fn is not None,
        lambda y: not y.is_leaf,
        lambda y: (y + 1.0).tolist() == 4.0,
        lambda y: (1.0 + y).tolist() == 4.0,
        lambda y: repr(y) in ("tensor(3., grad_fn=<ReduceBackward>)", PENDING),
        lambda y: "grad_fn=<ReduceBackward>" in str(y),
        lambda y: y.detach().item() == 3.0,
        lambda y: not hasattr(y, "nothing"),
        lambda y: rg.stack([y, y]).tolist() == [3.0, 3.0],
        lambda y: type(y.detach()) is rg.Tensor,
    ],
)
def test_whoever_looks_at_a_fact_finds_it(session: Any, look: Any) -> None:
    x = leaf(1, 2)
    Reduce.apply(x, "none")
    y = Reduce.apply(x, "sum")
    assert isinstance(y, rg.Tensor)
    assert look(y)
    assert type(y) is rg.Tensor


def test_waits_of_looks_are_counted_and_those_of_reads_are_not(session: Any) -> None:
    x = leaf(1, 2)
    Reduce.apply(x, "none")
    assert Reduce.apply(x, "sum").item() == 3.0
    assert session._observed.first_runs["Reduce"][0] == 1
    assert Reduce.apply(x, "first").shape == (1,)
    assert session._observed.first_runs["Reduce"][0] == 2


def test_an_attribute_that_is_set_is_set_on_what_the_run_shows(session: Any) -> None:
    x = leaf(1, 2)
    Reduce.apply(x, "none")
    y = Reduce.apply(x, "signs")
    y.label = "signs"
    assert y.label == "signs"
    assert not y.requires_grad
    assert y.grad_fn is None


def test_outputs_are_aliases_and_views_where_the_run_shows_it(session: Any) -> None:
    x: Any = leaf(1, 2) * 1.0
    Reduce.apply(x, "none")
    with rg.no_grad():
        Reduce.apply(x, "none")
        same, view = Reduce.apply(x, "same"), Reduce.apply(x, "view")
        same.mul_(2.0)
        assert x.tolist() == [2.0, 4.0]
        assert view.shape == (1,)


def _changed_before_backward(how: str) -> Any:
    weight = leaf(1, 2)
    x: Any = weight * 1.0
    Reduce.apply(x, "none")
    y = Reduce.apply(x, how)
    x.mul_(3.0)
    values = y.detach().tolist()

    def differentiate() -> None:
        y.sum().backward()
        weight.grad.tolist()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        differentiate()
    return values


@pytest.mark.parametrize("how", ["sum", "first"])
def test_what_is_changed_between_a_call_and_its_run_is_noticed_as_eagerly(how: str) -> None:
    eager = _changed_before_backward(how)
    with rg.Session(workers=1):
        assert _changed_before_backward(how) == eager


def _orders() -> list[str]:
    x, seen = leaf(1, 2), list[str]()
    Reduce.apply(x, "none")
    first = Reduce.apply(x, "sum")
    second = x * 2.0
    third = Reduce.apply(x, "first")
    fourth = x * 3.0
    for name, one in (("first", first), ("second", second), ("third", third), ("fourth", fourth)):
        one.grad_fn.register_prehook(lambda grads, name=name: seen.append(name), **CLIENT)
    (first.sum() + second.sum() + third.sum() + fourth.sum()).backward()
    return seen


CLIENT: dict[str, Any] = {}


def test_nodes_run_in_the_order_of_their_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    eager = _orders()
    monkeypatch.setitem(CLIENT, "client", True)
    with rg.Session(workers=1):
        assert _orders() == eager
    assert sorted(eager) == ["first", "fourth", "second", "third"]


def test_outputs_that_nobody_holds_any_more_are_let_go(session: Any) -> None:
    x = leaf(1, 2)
    Reduce.apply(x, "none")
    Reduce.apply(x, "sum")
    y = Reduce.apply(x, "first")
    node = y.grad_fn
    del y
    assert node.next_functions[0][0].variable is x
    session.run()
    assert len(session._observed.signatures) == 3


def test_emits_of_calls_whose_outputs_are_dropped_come_once_and_in_order(session: Any) -> None:
    class Tells(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, name: str) -> Any:
            rg.emit("name", name)
            return x * 1.0

    seen: list[str] = []
    session.on("name", seen.append)
    x = leaf(1, 2)
    for name in "abcd":
        Tells.apply(x, name)
    session.run().wait()
    assert seen == ["a", "b", "c", "d"]


class Split(rg.autograd.Function):
    """Returns as many tensors as an option, a number or the shape of its argument says."""

    @staticmethod
    def forward(ctx: Any, x: Any, how: Any = None) -> Any:
        if how == "one":
            return x * 1.0
        parts = x.shape[0] if how is None else len(how) if isinstance(how, str) else how
        return tuple([x * float(i) for i in range(parts)])


class SplitToo(Split):
    """The same, with a backward for whatever it returns."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return sum(grads), None


@pytest.mark.parametrize("function", [Split, SplitToo])
def test_a_number_of_outputs_that_backward_does_not_tell_is_waited_for(session: Any, function: Any) -> None:
    x = leaf(1, 2)
    assert function.apply(x, "one").shape == (2,)
    for how, count in (("ab", 2), ("a", 1), (3, 3), (4, 4), (None, 2)):
        assert len(function.apply(x, how)) == count
    assert len(function.apply(leaf(1, 2, 3), None)) == 3
    before = runs(session)
    assert function.apply(leaf(1, 2, 3), "one").shape == (3,)
    assert runs(session) == before + 1


def test_the_number_of_outputs_that_backward_tells_is_not_waited_for(session: Any) -> None:
    class Pair(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, how: str) -> Any:
            return (x.sum(), x * 2.0) if how == "sum" else (x * 1.0, x.double())

        @staticmethod
        def backward(ctx: Any, one: Any, other: Any) -> Any:
            return one + other.float() * 2.0, None

    x = leaf(1, 2)
    Pair.apply(x, "none")
    before = runs(session)
    a, b = Pair.apply(x, "sum")
    c, d = Pair.apply(leaf(1, 2, 3), "none")
    assert runs(session) == before
    assert [one.shape for one in (a, b, c, d)] == [(), (2,), (3,), (3,)]
    assert [one.dtype for one in (a, b, c, d)] == [rg.float32, rg.float32, rg.float32, rg.float64]
    assert runs(session) == before + 1
    (a + b).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


class Lies(rg.autograd.Function):
    """Returns another number of outputs than its backward takes gradients."""

    @staticmethod
    def forward(ctx: Any, x: Any, how: str) -> Any:
        return {"two": (x * 1.0, x * 2.0), "one": x * 1.0, "tuple": (x * 1.0,)}[how]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


@pytest.mark.parametrize(
    ("how", "what", "values"),
    [
        ("two", "it returned 2 outputs, and 1 then", [[1.0, 2.0], [2.0, 4.0]]),
        ("tuple", "it returned a tuple, and none", [[1.0, 2.0]]),
    ],
)
def test_another_number_of_outputs_is_an_error_and_known_afterwards(
    session: Any, how: str, what: str, values: Any
) -> None:
    x = rg.tensor([1.0, 2.0])
    assert Lies.apply(x, "one").tolist() == [1.0, 2.0]
    output = Lies.apply(x, how)
    with pytest.raises(GraphError, match=rf"Lies behaved differently .*: {what}.* an infer"):
        output.tolist()
    assert [one.tolist() for one in Lies.apply(x, how)] == values
    assert type(Lies.apply(leaf(1, 2, 3), "one")) is rg.Tensor  # nothing is taken for granted any more


def test_a_failure_is_raised_where_an_output_is_looked_at(session: Any) -> None:
    x = leaf(1, 2)
    Reduce.apply(x, "none")
    y = Reduce.apply(x, "unheard of")
    with pytest.raises(KeyError, match="unheard of"):
        _ = y.shape
    assert Reduce.apply(x, "sum").item() == 3.0


def test_a_failure_is_raised_once_by_changes_in_place_of_something_else(session: Any) -> None:
    Reduce.apply(leaf(1, 2), "none").tolist()
    other: Any = rg.tensor([1.0, 2.0])
    outputs = [Reduce.apply(leaf(*range(size)), "unknown") for size in (3, 4)]
    with pytest.raises(KeyError, match="unknown"):
        other.add_(1.0)
    other.add_(1.0)
    other.mul_(2.0)
    assert other.tolist() == [4.0, 6.0]
    for output in outputs:
        with pytest.raises(DroppedError):
            output.tolist()


def test_an_output_of_a_session_that_dropped_it_says_so() -> None:
    session = rg.Session(workers=1)
    session.__enter__()
    x = leaf(1, 2)
    Reduce.apply(x, "none")
    y = Reduce.apply(x, "sum")
    session.__exit__(ValueError, ValueError(), None)
    with pytest.raises(SessionError, match="dropped when its session was closed"):
        _ = y.shape


def test_an_output_that_is_held_is_there_after_its_session() -> None:
    x = leaf(1, 2)
    with rg.Session(workers=1):
        Reduce.apply(x, "none")
        y = Reduce.apply(x, "sum")
    assert y.shape == ()
    assert y.item() == 3.0


@pytest.mark.parametrize("options", [{"sync": True}, {"memory": "100MiB per worker"}, {"saved": "recompute"}])
def test_where_the_run_is_needed_at_once_it_is_waited_for(options: Any) -> None:
    with rg.Session(workers=1, **options) as session:
        x = leaf(1, 2)
        Reduce.apply(x, "none")
        before = runs(session)
        assert type(Reduce.apply(x, "sum")) is rg.Tensor
        assert runs(session) == before + 1


def test_a_call_is_explained_before_its_run(session: Any) -> None:
    x = leaf(1, 2)
    Reduce.apply(x, "none")
    y = Reduce.apply(x, "sum")
    assert "Reduce" in str(session.explain())
    assert y.tolist() == 3.0


def test_a_session_on_several_workers_gives_the_same_bits() -> None:
    def gradient() -> Any:
        x = leaf(0.1, 0.2, 0.3)
        outputs = [Reduce.apply(x * float(i), how) for i in range(1, 4) for how in ("none", "sum", "first", "double")]
        loss: Any = sum((one * 0.7).sum().float() for one in outputs)
        loss.backward()
        return loss.item(), x.grad.tolist()

    eager = gradient()
    with rg.Session(workers=3):
        assert gradient() == eager
