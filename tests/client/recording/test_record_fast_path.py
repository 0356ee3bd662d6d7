"""Records of what was recorded before are those that the first recording gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import raygrad as rg
from raygrad.autograd.core.modes import state
from raygrad.client.functions import functions, vjps
from raygrad.client.recording.record_fast_path import exact
from raygrad.client.recording.records import NodeRecord
from raygrad.errors import SessionError
from raygrad.proto.ir.nodes import OpVjp


@pytest.fixture
def session() -> Iterator[rg.Session]:
    with rg.Session(workers=1) as session:
        yield session


def vector(*values: float) -> Any:
    return rg.tensor(list(values), dtype=rg.float64, requires_grad=True)


def told(record: NodeRecord) -> dict[str, Any]:
    """Return all fields but those of the one record: its sources, and its place."""
    return {
        name: getattr(record, name)
        for name in NodeRecord.__slots__
        if name not in ("__weakref__", "sources", "site", "base", "live", "saved")
    }


def records_of(session: rg.Session, step: Any) -> list[NodeRecord]:
    """Return what a step records."""
    records = session._log.records
    with session.deferred():
        before = len(records)
        held = step()
        made = records[before:]
    del held
    return made


@pytest.mark.parametrize(
    "step",
    [
        lambda: vector(1, 2).sin().exp().backward(rg.ones(2, dtype=rg.float64)),
        lambda: (vector(1, 2) * vector(3, 4) * 2.0).backward(rg.ones(2, dtype=rg.float64)),
        lambda: vector(1, 2).sum(0, keepdim=True).sin().backward(rg.ones(1, dtype=rg.float64)),
    ],
)
def test_what_is_recorded_again_is_like_the_first(session: rg.Session, step: Any) -> None:
    first, second = records_of(session, step), records_of(session, step)
    assert len(first) == len(second) >= 3
    for one, other in zip(first, second, strict=True):
        assert told(one) == told(other)
        assert [type(s) for s in one.sources] == [type(s) for s in other.sources]
        assert str(one.site) == str(other.site)


def test_line_of_what_is_recorded_again_is_its_own(session: rg.Session) -> None:
    x = vector(1, 2)
    x.sin()
    y = x.sin()  # this line
    z = x * (
        2.0  # no more
    )
    w = rg.sin(x)  # that line
    lines = Path(__file__).read_text().splitlines()
    for tensor, mark in ((y, "# this line"), (w, "# that line")):
        line = next(n for n, text in enumerate(lines, 1) if mark in text)
        assert f"test_record_fast_path.py:{line} in" in str(tensor._data.record.site)
    assert "test_record_fast_path.py" in str(z._data.record.site)


def test_a_value_of_an_earlier_run_is_held_by_what_reads_it(session: rg.Session) -> None:
    y = vector(1, 2).sin()
    y.sin()
    y.detach().numpy()
    (source,) = y.sin()._data.record.sources
    assert source == (y._data.record, 0, y._data)


def test_params_are_told_apart_exactly() -> None:
    several = [(1,), (1.0,), (True,), (0.0,), (-0.0,), ((1,),), ("1",), (None,), ()]
    assert len({exact(params) for params in several}) == len(several)
    assert exact((1, (2, 3), "x", None, 0.5)) == exact((1, (2, 3), "x", None, 0.5))
    odd = (object(),)
    assert exact(odd) is odd


def test_number_of_another_type_is_another_op(session: rg.Session) -> None:
    x = rg.tensor([1, 2])
    assert [(x * 2).dtype, (x * 2.0).dtype, (x * 2).dtype] == [rg.int64, rg.float32, rg.int64]


def test_value_of_another_session_is_refused_also_where_it_would_be_recorded_again(session: rg.Session) -> None:
    foreign = vector(1, 2).sin()
    foreign.exp()
    with rg.Session(workers=1) as other:
        own = vector(1, 2).sin()
        own.exp()
        with pytest.raises(SessionError, match="another session"):
            foreign.exp()
        assert len(other._log.records) == 2
        assert own.exp().tolist() == own.exp().tolist()
    assert foreign.exp().tolist() == own.exp().tolist()


def test_hooks_on_what_is_recorded_again_are_called(session: rg.Session) -> None:
    for factor in (1.0, 3.0):
        x = vector(1, 2)
        y = x.sin()
        if factor > 1.0:
            y.register_hook(lambda grad: grad * 3.0)
        y.sum().backward()
        assert x.grad is not None
        assert x.grad.numpy() == pytest.approx(factor * np.cos([1.0, 2.0]))


def test_derivative_of_an_undefined_gradient_is_undefined(session: rg.Session) -> None:
    class Halts(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    for _ in range(3):
        x = vector(1, 2)
        x.sin().sum().backward()
        Halts.apply(x.sin().exp()).sum().backward()
        assert x.grad is not None
        assert x.grad.numpy() == pytest.approx(np.cos([1.0, 2.0]))


# ---- the few steps are taken -----------------------------------------------------------------------------------------


class Counted:
    """A function whose calls are counted, and those that returned something; what they returned is not held."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = self.done = 0

    def __call__(self, *args: Any) -> Any:
        result = self.function(*args)
        self.calls += 1
        self.done += result is not None
        return result


OPS: dict[str, Callable[[], Any]] = {
    "one operand": lambda: vector(1, 2).sin(),
    "two operands": lambda: vector(1, 2) * vector(3, 4),
    "a number": lambda: vector(1, 2) + 2.0,
    "a number first": lambda: 2 - vector(1, 2),
    "params": lambda: vector(1, 2).sum(0, keepdim=True),
    "what has no derivative": lambda: vector(1, 2) > vector(3, 4),
    "nothing to differentiate": lambda: rg.ones(2).exp() * 3,
    "a method in place of an operator": lambda: vector(1, 2).mul(vector(3, 4)).div(2.0),
    "a value of the step itself": lambda: (y := vector(1, 2).sin()) * y + y.exp(),
}


@pytest.mark.parametrize("name", OPS)
def test_what_was_recorded_before_is_recorded_in_few_steps(session: rg.Session, name: str) -> None:
    recorder: Any = session._recorder
    recorder.op, recorder.repeat_op = Counted(recorder.op), Counted(recorder.repeat_op)
    made = [records_of(session, OPS[name]) for _ in range(3)]
    count = len(made[0])
    assert recorder.op.calls == count, "the first time, and no other"
    assert recorder.repeat_op.done == 2 * count


CHAIN = {
    "of an input": lambda x: x.sin(),
    "of an output": lambda x: x.exp(),
    "of both": lambda x: x.tanh().sqrt(),
    "with params": lambda x: x.sum(0, keepdim=True),
    "one after the other": lambda x: x.sin().exp().cos(),
}


@pytest.mark.parametrize("name", CHAIN)
def test_derivatives_that_were_recorded_before_are_recorded_in_few_steps(session: rg.Session, name: str) -> None:
    recorder: Any = session._recorder
    recorder.op_vjp, recorder.repeat_op_vjp = Counted(recorder.op_vjp), Counted(recorder.repeat_op_vjp)

    def step() -> Any:
        x = vector(1, 2)
        y = CHAIN[name](x)
        y.backward(y.detach() * 2.0)  # a gradient of the client is none that was recorded
        return x.grad

    for _ in range(3):
        assert records_of(session, step)
    count = recorder.op_vjp.calls
    assert recorder.repeat_op_vjp.done == 2 * count > 0


def test_applications_that_were_recorded_before_are_looked_up(
    session: rg.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scaled(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float) -> Any:
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.factor, None

    made = {name: Counted(getattr(room, name)) for room, name in ((functions, "CallSignature"), (vjps, "VjpSignature"))}
    monkeypatch.setattr(functions, "CallSignature", made["CallSignature"])
    monkeypatch.setattr(vjps, "VjpSignature", made["VjpSignature"])
    numbers: list[tuple[int, int]] = []
    for _ in range(6):
        x = vector(1, 2)
        Scaled.apply(x, 3.0).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0]
        numbers.append((made["CallSignature"].calls, made["VjpSignature"].calls))
    assert numbers[-3:] == [numbers[2]] * 3, "runs teach how the Function is applied, and what its backward returns"
    assert numbers[-1] <= (2, 3)


# ---- they record what the general path does --------------------------------------------------------------------------

UNARY: list[Callable[[Any], Any]] = [
    lambda x: x.sin(),
    lambda x: x.exp(),
    lambda x: x + 1,
    lambda x: x + 1.0,
    lambda x: 2.0 / x,
    lambda x: x**2.0,
    lambda x: x.sum(0, keepdim=True),
    lambda x: x.sum(-1, keepdim=True),
    lambda x: x.detach(),
    lambda x: x.reshape(-1),
    lambda x: x.double(),
    lambda x: x.clone().mul_(3.0),
]
VIEWS = (8, 9, 10)
"""Of these, what is no op or makes views, which the general path alone records."""
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x * y,
    lambda x, y: x - y,
    lambda x, y: x / y,
    lambda x, y: rg.where(x > y, x, y),
    lambda x, y: rg.maximum(x, y),
]
LEAVES: list[Callable[[], Any]] = [
    lambda: vector(1, 2),
    lambda: vector(3, 4),
    lambda: vector(5),
    lambda: rg.tensor([7.0, 8.0]),
    lambda: rg.tensor([[7.0, 8.0]], requires_grad=True),
]

Steps = Sequence[tuple[int, int, int]]


def run(steps: Steps, backward: bool) -> tuple[list[Any], list[Any]]:
    """Return the leaves and the values of a program: each step takes one of the last values, or two."""
    leaves = [make() for make in LEAVES]
    values = list(leaves)
    for op, first, second in steps:
        one, other = values[-1 - first % len(values)], values[-1 - second % len(values)]
        values.append(UNARY[op](one) if op < len(UNARY) else BINARY[op - len(UNARY)](one, other))
    if backward and values[-1].requires_grad:
        values[-1].sum().backward()
    return leaves, values


def described(records: Sequence[NodeRecord]) -> list[Any]:
    """Return all that records say, with numbers in place of one another."""
    number = {id(record): index for index, record in enumerate(records)}

    def source(one: Any) -> Any:
        if type(one) is tuple:
            return number[id(one[0])], one[1], one[2] is None
        return one if one is None else (one.spec.spec, np.asarray(one.value).tobytes(), type(one.value))

    def work(record: NodeRecord) -> str:
        done: Any = record.work
        if type(done) is OpVjp:  # whose specs are objects of the session's, until it is part of a graph
            indices: list[Any] = [done.operand_specs, done.result_specs]
            operands, results = [tuple([one and one.spec for one in specs]) for specs in indices]
            done = done._replace(operand_specs=operands, result_specs=results)
        return repr(done).replace("SpecEntry", "")

    return [
        (
            work(record),
            [source(one) for one in record.sources],
            [entry.spec for entry in record.outputs],
            str(record.site),
            {name: getattr(record, name) for name in ("kind", "pin", "live", "saved", "effects", "near", "leaf")},
            {name: getattr(record, name) for name in ("pinned", "learn", "story", "needed", "run", "base", "failed")},
        )
        for record in records
    ]


def described_tensor(y: Any) -> Any:
    """Return what a tensor, its value and its node show."""
    node, data = y.grad_fn, y._data
    value = (data.shape, data.dtype, data.index, data.defined) if hasattr(data, "record") else data.shape
    if node is None:
        return value, y.requires_grad, y.output_nr
    return (
        value,
        y.output_nr,
        node.name(),
        [None if edge is None or edge[0] is None else (edge[0].name(), edge[1]) for edge in node._edges],
        node.needs_input_grad,
        tuple(node.inputs),
        tuple(node._metas),
        node.params,
        [getattr(held, "shape", held) for held in node.saved_tensors or ()],
        [None if version is None else version[1] for version in node.versions or ()],
    )


def recorded(steps: Steps, backward: bool, worker: int, general: bool) -> tuple[int, list[Any], list[Any]]:
    """Return how often the few steps were taken when a program was recorded three times, and what was recorded."""
    session = rg.Session(workers=2)
    recorder: Any = session._recorder
    before, state.recorder = state.recorder, recorder
    few = [Counted(recorder.repeat_op), Counted(recorder.repeat_op_vjp)]
    recorder.repeat_op, recorder.repeat_op_vjp = [lambda *_: None] * 2 if general else few
    try:
        with session.deferred(), rg.place(worker=worker):
            held = [run(steps, backward) for _ in range(3)]
            shown = described(recorder.log.records)
        tensors = [described_tensor(one) for _, values in held for one in values if one is not None]
        grads = [described_tensor(one.grad) for leaves, _ in held for one in leaves if one.grad is not None]
        return sum(one.done for one in few), shown, [*tensors, *grads]
    finally:
        state.recorder = before
        session.close(discard=True)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, len(UNARY) + len(BINARY) - 1), st.integers(0, 4), st.integers(0, 4)),
        min_size=1,
        max_size=6,
    ),
    backward=st.booleans(),
    worker=st.integers(0, 1),
)
def test_few_steps_record_what_the_general_path_records(steps: Steps, backward: bool, worker: int) -> None:
    few, records, tensors = recorded(steps, backward, worker, general=False)
    none, general, others = recorded(steps, backward, worker, general=True)
    assert none == 0
    assert few or all(op in VIEWS for op, *_ in steps)
    assert records == general
    assert tensors == others


def test_no_gradient_arrives_behind_operations_on_an_undefined_one() -> None:
    class Ends(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> None:
            return None

    with rg.Session():
        for _ in range(3):
            x = rg.ones(2, requires_grad=True)
            Ends.apply(x.exp().sin()).sum().backward()
            assert x.grad is None
