"""Graphs that were submitted before are recognised by their records, and no others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.core.modes import state
from raygrad.client.submission.graph_cache import MAX_GRAPHS, GraphCache
from raygrad.client.submission.submission import build, needed_records


@pytest.fixture
def session() -> Iterator[rg.Session]:
    session = rg.Session(workers=2)
    state.recorder = session._recorder
    try:
        yield session
    finally:
        state.recorder = None
        session.close(discard=True)


def vector(*values: float) -> Any:
    return rg.tensor(list(values), dtype=rg.float64, requires_grad=True)


def recorded(session: rg.Session, program: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a program holds in the end, and the records that it needs."""
    recorder = session._recorder
    recorder.log.records.clear()
    with session.deferred():
        held = program()
    return held, needed_records(recorder.log.records, next(session._runs.numbers))


def train(factor: float = 2.0) -> Any:
    x, w = vector(1, 2), vector(3, 4)
    y = (x * w * factor).sin()
    y.sum().backward()
    return x.grad, w.grad


def test_graph_that_was_submitted_before_is_the_same_object(session: rg.Session) -> None:
    graphs = GraphCache()
    _, records = recorded(session, train)
    first = graphs.submission(3, records)
    assert graphs.found == 0
    _, records = recorded(session, lambda: train(5.0))
    second = graphs.submission(4, records)
    assert graphs.found == 1
    assert second.graph is first.graph
    assert second.key == first.key
    assert second.run == 4
    made = build(4, records).submission
    assert made.encoded == second.encoded
    assert [external.value for external in made.externals if not hasattr(external.value, "shape")] == [
        external.value for external in second.externals if not hasattr(external.value, "shape")
    ]


def test_values_are_found_where_the_graph_has_them(session: rg.Session) -> None:
    bases: list[list[int]] = []
    graphs = GraphCache()
    for run in range(2):
        held, records = recorded(session, train)
        graphs.submission(run, records)
        bases.append([record.base for record in records])
        build(run, records)
        assert bases[-1] == [record.base for record in records]
        del held
    assert graphs.found == 1


OPS: list[Callable[[Any, Any], Any]] = [
    lambda one, other: one * other,
    lambda one, other: one + 1,
    lambda one, other: one + 1.0,
    lambda one, other: one.sin(),
    lambda one, other: one.sum(0, keepdim=True) * other,
    lambda one, other: one.sum(0) * other,
]


def programs(chance: random.Random) -> Callable[[], Any]:
    """Return a small program of a few that are often equal, and often nearly so."""
    seed = chance.randrange(60)

    def program() -> Any:
        choose = random.Random(seed)
        values = [vector(1, 2), vector(3, 4)]
        for _ in range(choose.randrange(1, 4)):
            one, other = choose.choice(values), choose.choice(values)
            with rg.place(worker=choose.randrange(2)):
                values.append(choose.choice(OPS)(one, other))
        if choose.random() < 0.5:
            values[-1].sum().backward()
        return values if choose.random() < 0.5 else values[-1]

    return program


def test_only_equal_graphs_have_one_name(session: rg.Session) -> None:
    chance = random.Random(7)
    graphs = GraphCache()
    seen: dict[bytes, bytes] = {}
    for run in range(300):
        held, records = recorded(session, programs(chance))
        graphs._known.clear()
        graphs.submission(run, records)
        (name,) = graphs._known
        encoded = build(run, records).submission.encoded
        assert seen.setdefault(name, encoded) == encoded
        del held
    # a number of another type may be the same graph under two names
    assert 30 < len(set(seen.values())) <= len(seen) <= 60


class Twice(rg.autograd.Function):
    @staticmethod
    def infer(x: Any) -> Any:
        return x.shape, x.dtype

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


class TwiceWritten(Twice):
    """A Function with the specs of another."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x + x


class Cube(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float = 1.0) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * x * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * ctx.factor * grad, None


def trained(function: Any, *others: Any) -> Callable[[], Any]:
    """Return a step of training over one Function."""

    def step() -> Any:
        x = vector(1, 2)
        y = function.apply(x, *others)
        y.sum().backward()
        return x, y

    return step


def test_user_functions_and_their_backwards_are_recognised(session: rg.Session) -> None:
    for program in (trained(Cube, 2.0), trained(Twice)):
        held = [program() for _ in range(2)]  # learned: what forward and backward showed
        session._waiter.wait_for_everything()
        graphs = GraphCache()
        for run in range(10, 13):
            held, records = recorded(session, program)
            assert len(records) > 3
            submission = graphs.submission(run, records)
            made = build(run, records).submission
            assert (submission.encoded, submission.key) == (made.encoded, made.key)
            assert len(submission.externals) == len(made.externals)
        assert graphs.found == 2
        del held


def test_a_context_of_an_earlier_run_is_found_where_the_graph_has_it(session: rg.Session) -> None:
    graphs = GraphCache()
    step = trained(Cube, 2.0)
    learned = [step() for _ in range(2)]
    session._waiter.wait_for_everything()
    for run in range(10, 13):
        x = vector(1, 2)
        y = Cube.apply(x, 2.0)
        session._submitter.submit()
        held, records = recorded(session, lambda y=y: y.sum().backward())
        submission = graphs.submission(run, records)
        made = build(run, records).submission
        assert submission.encoded == made.encoded
        assert submission.externals == made.externals
        del held, x, y
    assert graphs.found == 2
    del learned


def test_graphs_whose_functions_request_resources_are_made_each_time(session: rg.Session) -> None:
    graphs = GraphCache()
    for run in range(2):
        held, records = recorded(session, lambda: Twice.apply(vector(1, 2)))
        requests: Any = {records[-1].work.fn: ("Twice", (("num_cpus", 1.0),))}
        submission = graphs.submission(run, records, requests)
        assert submission.graph.demands
        assert submission.encoded == build(run, records, requests).submission.encoded
        del held
    assert graphs.found == 0


def test_no_more_than_a_few_are_remembered(session: rg.Session) -> None:
    graphs = GraphCache()
    for length in range(1, MAX_GRAPHS + 5):

        def program(length: int = length) -> Any:
            y = vector(1, 2)
            for _ in range(length):
                y = y.sin()
            return y

        held, records = recorded(session, program)
        graphs.submission(length, records)
        del held
    assert len(graphs._known) == MAX_GRAPHS


def plain(*values: float, dtype: Any = rg.float64) -> Any:
    return rg.tensor(list(map(float, values)), dtype=dtype)


def with_gradient(y: Any, grad: Any = None) -> Any:
    y.backward(rg.ones(*y.shape, dtype=y.dtype) if grad is None else grad)
    return y


def turned(*shape: int) -> Any:
    return rg.from_numpy(np.asfortranarray(np.ones(shape)))


def product_of(one: Any, other: Any) -> Any:
    """Return a product's operands and itself, with the gradients that were asked for."""
    return one, other, with_gradient(one * other)


def sorted_part(part: int) -> Any:
    with rg.no_grad():
        return rg.sort(plain(1, 2))[part] * 1


def signed_part(part: int) -> Any:
    """Return one of two outputs that have the same shape and dtype."""
    with rg.no_grad():
        return rg.linalg.slogdet(rg.ones(2, 2))[part] * 1.0


def narrow() -> Any:
    return plain(1, 2, dtype=rg.float32)


def chain_with(number: int) -> Any:
    """Return the end of a chain and one of the others."""
    values = [plain(1, 2)]
    for _ in range(3):
        values.append(values[-1].sin())
    return values[1 + number], values[-1]


def held_with(held: bool) -> Any:
    y = plain(1, 2).sin()
    return (y, y.exp()) if held else y.exp()


def held_for_backward(grad: bool) -> Any:
    y = (vector(1, 2) if grad else plain(1, 2)).sin()
    return y, y.exp()


def placed_at(worker: int) -> Any:
    with rg.place(worker=worker):
        return plain(1, 2).sin()


ONE_THING: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "op of one operand": (lambda: plain(1, 2).sin(), lambda: plain(1, 2).cos()),
    "op of two operands": (lambda: plain(1, 2) * plain(3, 4), lambda: plain(1, 2) + plain(3, 4)),
    "op of two operands that are one": (lambda: (x := plain(1, 2)) * x, lambda: plain(1, 2) * plain(1, 2)),
    "axis": (lambda: rg.ones(2, 2).sum(0), lambda: rg.ones(2, 2).sum(1)),
    "params or none": (lambda: plain(1, 2).sum(), lambda: plain(1, 2).sum(0, keepdim=True)),
    "shape of the only operand": (lambda: plain(1, 2).sin(), lambda: plain(1, 2, 3).sin()),
    "shape of the first operand": (lambda: plain(1) * plain(3, 4), lambda: plain(1, 2) * plain(3, 4)),
    "shape of the second operand": (lambda: plain(1, 2) * plain(3), lambda: plain(1, 2) * plain(3, 4)),
    "dtype": (lambda: plain(1, 2).sin(), lambda: plain(1, 2, dtype=rg.float32).sin()),
    "layout": (lambda: rg.ones(2, 3, dtype=rg.float64).sin(), lambda: turned(2, 3).sin()),
    "type of a number": (lambda: plain(1, 2).to(rg.int64) * 2, lambda: plain(1, 2).to(rg.int64) * 2.0),
    "order of operands": (
        lambda: ((x := plain(1, 2).sin()), (y := plain(3, 4).sin()), x / y),
        lambda: ((x := plain(1, 2).sin()), (y := plain(3, 4).sin()), y / x),
    ),
    "output of an op of two": (lambda: sorted_part(0), lambda: sorted_part(1)),
    "which operand has a gradient": (
        lambda: product_of(vector(1, 2), plain(3, 4)),
        lambda: product_of(plain(1, 2), vector(3, 4)),
    ),
    "whether both operands have a gradient": (
        lambda: product_of(vector(1, 2), plain(3, 4)),
        lambda: product_of(vector(1, 2), vector(3, 4)),
    ),
    "dtype before conversion": (
        lambda: product_of(vector(1, 2), vector(3, 4)),
        lambda: product_of(vector(1, 2).float().detach().requires_grad_(), vector(3, 4)),
    ),
    "layout of a gradient": (
        lambda: with_gradient(rg.ones(2, 3, dtype=rg.float64).requires_grad_().sin()),
        lambda: with_gradient(rg.ones(2, 3, dtype=rg.float64).requires_grad_().sin(), turned(2, 3)),
    ),
    "dtype of a sum of gradients": (
        lambda: (x := vector(1, 2), with_gradient(x + x)),
        lambda: (x := vector(1, 2).float().detach().requires_grad_(), with_gradient(x + x)),
    ),
    "output of equal specs": (lambda: signed_part(0), lambda: signed_part(1)),
    "dtype before conversion, of equal specs after it": (
        lambda: product_of(narrow().double().detach().requires_grad_(), vector(3, 4)),
        lambda: product_of(narrow().requires_grad_(), vector(3, 4)),
    ),
    "which operand has a gradient where one is converted": (
        lambda: product_of(narrow().requires_grad_(), plain(3, 4)),
        lambda: product_of(narrow().requires_grad_(), vector(3, 4)),
    ),
    "worker": (lambda: placed_at(0), lambda: placed_at(1)),
    "which of several are held": (lambda: chain_with(0), lambda: chain_with(1)),
    "what is held": (lambda: held_with(held=True), lambda: held_with(held=False)),
    "what is held for a backward": (lambda: held_for_backward(grad=True), lambda: held_for_backward(grad=False)),
}


def recorded_alone(program: Callable[[], Any]) -> bytes:
    """Return the graph of a program that a session records before all else."""
    before = state.recorder
    session = rg.Session(workers=2)
    state.recorder = session._recorder
    try:
        held, records = recorded(session, program)
        encoded = build(1, records).submission.encoded
        del held
        return encoded
    finally:
        state.recorder = before
        session.close(discard=True)


@pytest.mark.parametrize("component", ONE_THING)
def test_programs_that_differ_in_one_thing_alone_share_neither_records_nor_graphs(
    session: rg.Session, component: str
) -> None:
    graphs = GraphCache()
    programs = ONE_THING[component]
    alone = [recorded_alone(program) for program in programs]
    assert alone[0] != alone[1]
    for number in (0, 1, 0, 1, 1, 0):
        held, records = recorded(session, programs[number])
        assert graphs.submission(number, records).encoded == alone[number]
        assert build(number, records).submission.encoded == alone[number]
        del held
    assert graphs.found == 4


def test_graphs_are_told_apart_by_specs_of_what_earlier_runs_left(session: rg.Session) -> None:
    """What a derivative is does not say in which layout it is given the gradient."""
    earlier = [rg.ones(2, 3, dtype=rg.float64).sin(), turned(2, 3).sin()]
    session._submitter.submit()
    assert len({one._data.spec for one in earlier}) == 2
    graphs = GraphCache()
    for run, number in enumerate((0, 1, 0, 1), start=1):
        x = rg.ones(2, 3, dtype=rg.float64).requires_grad_()
        held, records = recorded(session, lambda x=x, grad=earlier[number]: with_gradient(x.sin(), grad))
        encoded = graphs.submission(run, records).encoded
        assert encoded == build(run, records).submission.encoded
        del held
    assert graphs.found == 2


def everything() -> Any:
    """Return what makes records of many kinds: ops, derivatives, sums and checks, on several specs."""
    held: list[Any] = []
    for dtype in (rg.float32, rg.float64):
        for count in (1, 2):
            x, w = leaves = [rg.ones(count, dtype=dtype).requires_grad_() for _ in range(2)]
            y = x.sin() * w + x
            with_gradient(y.exp() * 2.0)
            grads: list[Any] = [leaf.grad for leaf in leaves]
            held += [*grads, grads[0] + grads[1], product_of(vector(1, 2), narrow().requires_grad_())]
            recorder: Any = state.recorder
            held.append(recorder.require(y._data))
            held.append([trained(function)() for function in (Twice, TwiceWritten)])
    return held


def test_records_of_one_kind_do_the_same_work_with_as_many_inputs_and_outputs(session: rg.Session) -> None:
    held, _ = recorded(session, everything)
    known: dict[int, Any] = {}
    for record in session._recorder.log.records:
        if record.kind:
            what = (record.work, len(record.sources), tuple(record.outputs))
            assert known.setdefault(record.kind, what) == what
    works = {type(work).__name__ for work, _, _ in known.values()}
    assert works == {"OpCall", "OpVjp", "GradSum", "CheckDefined", "FunctionCall", "FunctionVjp"}
    assert len(known) > 20
    assert held
