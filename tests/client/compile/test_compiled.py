"""Compiled functions: what they compute is what the same calls compute uncompiled, bit for bit; when they record anew,
and what they refuse."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.errors import SessionError


class Square(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return rg.from_numpy(x.numpy() ** 2 * factor)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        rg.emit("norm", float(np.abs(grad.numpy()).sum()))
        return rg.from_numpy(grad.numpy() * x.numpy() * 2 * ctx.factor), None


def halved(grad: Any) -> Any:
    return grad * 0.5


def parameters() -> list[rg.Tensor]:
    random = np.random.default_rng(0)
    return [rg.tensor(random.standard_normal(s) / 4, requires_grad=True) for s in ((4, 6), (6,), (6, 2))]


def sgd(params: Any) -> Any:
    return rg.optim.SGD(params, lr=0.1)


def momentum(params: Any) -> Any:
    return rg.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01)


def adam(params: Any) -> Any:
    return rg.optim.Adam(params, lr=0.1)


def with_dropout(hidden: Any) -> Any:
    return rg.nn.functional.dropout(hidden, 0.4)


def with_function(hidden: Any) -> Any:
    return Square.apply(hidden, 0.5)


def with_hook(hidden: Any) -> Any:
    hidden.register_hook(halved)
    return hidden * 2.0


def plain(hidden: Any) -> Any:
    return hidden


def training(
    compiled: bool, options: dict[str, Any], make: Callable[[Any], Any], middle: Callable[[Any], Any], zero: bool = True
) -> tuple[list[bytes], Any]:
    """Train for some steps with batches of two sizes; return everything computed, and the compiled step."""
    rg.manual_seed(7)
    seen: list[Any] = []
    with rg.Session(**options) as session:
        session.on("norm", seen.append)
        params = parameters()
        optimizer = make(params)

        def step(x: Any, target: Any) -> Any:
            if zero:
                optimizer.zero_grad()
            w1, b1, w2 = params
            y = middle(rg.tanh(x @ w1 + b1)) @ w2
            loss = ((y - target) ** 2).mean()
            loss.backward()
            optimizer.step()
            return {"loss": loss, "more": (y, None, w1)}

        run: Any = session.compile(step) if compiled else step
        random = np.random.default_rng(1)
        out: list[Any] = []
        for number in range(8):
            rows = 3 if number % 3 == 2 else 5
            x = rg.tensor(random.standard_normal((rows, 4)))
            result = run(x, rg.tensor(random.standard_normal((rows, 2))))
            assert result["more"][1] is None
            assert result["more"][2] is params[0]
            out += [result["loss"], result["more"][0]]
        state = [optimizer.state[p] for p in params if p in optimizer.state]
        out += [*params, *[p.grad for p in params], *[t for kept in state for t in kept.values()]]
        values = [one.detach().numpy().tobytes() for one in out]
        assert all(p._version == 8 for p in params)
    return [*values, repr(seen).encode()], run


MODES = [{"workers": 1}, {"workers": 2}, {"workers": 2, "strict": True}]


@pytest.mark.parametrize("options", MODES, ids=["one", "two", "strict"])
@pytest.mark.parametrize("middle", [plain, with_dropout, with_function, with_hook])
@pytest.mark.parametrize("make", [sgd, momentum, adam])
def test_h9_compiled_training_is_the_uncompiled_one_bit_for_bit(
    options: dict[str, Any], make: Any, middle: Any
) -> None:
    expected, _ = training(False, options, make, middle)
    found, step = training(True, options, make, middle)
    assert found == expected
    assert step.replayed >= 2
    assert step.recorded + step.replayed == 8


def test_h9_gradients_accumulate_over_replays() -> None:
    expected, _ = training(False, MODES[1], sgd, plain, zero=False)
    found, step = training(True, MODES[1], sgd, plain, zero=False)
    assert found == expected
    assert step.replayed >= 3


@pytest.mark.ray
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("make", "middle"), [(momentum, with_function), (adam, with_dropout), (sgd, with_hook)])
def test_h9_compiled_training_on_ray_is_the_uncompiled_one(make: Any, middle: Any, ray_started: Any) -> None:
    expected, _ = training(False, {"address": "local"}, make, middle)
    found, step = training(True, {"address": "ray", "workers": 2}, make, middle)
    assert found[:-1] == expected[:-1]
    assert sorted(found[-1]) == sorted(expected[-1])
    assert step.replayed >= 2


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_replay_runs_no_python_and_plans_nothing(session: Any) -> None:
    quiet = session.compile(lambda x: x * 3.0)
    assert quiet(rg.tensor([1.0])).tolist() == [3.0]
    misses = session._driver.planner.misses
    for number in range(5):
        assert quiet(rg.tensor([float(number)])).tolist() == [3.0 * number]
    assert (quiet.recorded, quiet.replayed) == (1, 5)
    assert session._driver.planner.misses == misses


def test_parameters_and_state_stay_on_the_worker(session: Any) -> None:
    params = parameters()
    optimizer = adam(params)

    def run(x: Any) -> Any:
        optimizer.zero_grad()
        rg.tanh(x @ params[0]).sum().backward()
        optimizer.step()

    step = session.compile(run)
    for _ in range(4):
        step(rg.ones(2, 4, dtype=rg.float64))
    given: list[int] = []
    submit = session._driver.submit

    def spy(submission: Any, dropped: Any) -> Any:
        from raygrad.workers.executors.calls import SuppliedExternal

        given.extend(
            e.value.nbytes
            for e in submission.externals
            if isinstance(e, SuppliedExternal) and hasattr(e.value, "nbytes")
        )
        return submit(submission, dropped)

    session._driver.submit = spy
    step(rg.ones(2, 4, dtype=rg.float64))
    session._driver.submit = submit
    assert step.replayed >= 2
    assert params[0].grad is not None
    assert max(given) <= 2 * 4 * 8  # the argument, and nothing as large as a parameter


def test_changed_option_records_anew_without_planning(session: Any) -> None:
    params = parameters()
    optimizer = sgd(params)

    def run(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (x @ params[0]).sum()
        loss.backward()
        optimizer.step()
        return loss

    step = session.compile(run)
    x = rg.ones(2, 4, dtype=rg.float64)
    for _ in range(4):
        step(x)
    recorded = step.recorded
    optimizer.param_groups[0]["lr"] = 0.5
    misses = session._driver.planner.misses
    step(x)
    assert step.recorded == recorded + 1
    assert session._driver.planner.misses == misses
    expected = parameters()[0].detach().numpy() - 4 * 0.1 * 2.0 - 0.5 * 2.0
    np.testing.assert_allclose(params[0].detach().numpy(), expected)


def test_option_that_is_set_to_an_equal_number_is_the_same(session: Any) -> None:
    params = parameters()
    optimizer = sgd(params)
    schedule = rg.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 ** (step // 4))

    @session.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (x @ params[0]).sum()
        loss.backward()
        optimizer.step()
        return loss

    recorded: list[int] = []
    for _ in range(12):
        before = step.recorded
        step(rg.ones(2, 4, dtype=rg.float64))
        recorded.append(step.recorded - before)
        schedule.step()
    assert recorded[2:] == [0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    expected = parameters()[0].detach().numpy() - 4 * 0.1 * 2.0 * (1 + 0.5 + 0.25)
    np.testing.assert_allclose(params[0].detach().numpy(), expected)


def test_draws_that_no_replay_would_repeat_record_anew_and_say_what_to_do(session: Any) -> None:
    step = session.compile(lambda x: x + rg.from_numpy(np.random.rand(2)))
    kept = np.random.get_state()
    try:
        np.random.seed(3)
        found = [step(rg.zeros(2, dtype=rg.float64)).tolist() for _ in range(3)]
        np.random.seed(3)
        assert found == [np.random.rand(2).tolist() for _ in range(3)]
    finally:
        np.random.set_state(kept)
    assert "draw with raygrad" in step.reason


def test_deferred_call_is_recorded_only_and_can_be_explained(session: Any) -> None:
    params = parameters()
    optimizer = sgd(params)

    @session.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (x @ params[0]).sum()
        loss.backward()
        optimizer.step()
        return loss, params[0]

    x = rg.ones(2, 4, dtype=rg.float64)
    for _ in range(3):
        step(x)
    session.run().wait()
    run, recorded = session.last_run, step.recorded
    with session.deferred():
        loss, param = step(x)
    assert session.last_run is run
    plan = session.explain()
    assert "matmul" in plan.graph.names
    assert plan.graph.kinds.count("backward") > 0
    assert step.recorded == recorded + 1
    assert "deferred" in step.reason
    assert param is params[0]
    assert not loss.requires_grad
    step(x)
    expected = parameters()[0].detach().numpy() - 5 * 0.1 * 2.0
    np.testing.assert_allclose(params[0].detach().numpy(), expected)


def test_method_of_a_class_is_called_with_its_object(session: Any) -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @session.compile
        def scaled(self, x: Any) -> Any:
            return x * self.scale

    one, two = Model(2.0), Model(3.0)
    x = rg.tensor([1.0, 2.0])
    for _ in range(2):
        assert one.scaled(x).tolist() == [2.0, 4.0]
        assert two.scaled(x=x).tolist() == [3.0, 6.0]
    assert (Model.scaled.recorded, Model.scaled.replayed) == (2, 2)


def test_changed_variable_attribute_array_and_code_record_anew(session: Any) -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = 2.0
            self.table = np.array([1.0, 2.0])

    model = Model()

    def scaled(x: Any) -> Any:
        return x * model.scale + rg.tensor(model.table)

    body = scaled
    step = session.compile(lambda x: body(x))
    x = rg.tensor([1.0, 1.0])
    assert step(x).tolist() == [3.0, 4.0]
    assert step(x).tolist() == [3.0, 4.0]
    assert (step.recorded, step.replayed) == (1, 1)
    model.scale = 3.0
    assert step(x).tolist() == [4.0, 5.0]
    model.table[0] = 10.0
    assert step(x).tolist() == [13.0, 5.0]

    def other(x: Any) -> Any:
        return x

    body = other
    assert step(x).tolist() == [1.0, 1.0]
    assert step.recorded == 4


def test_captured_tensor_is_read_as_it_is_at_each_call(session: Any) -> None:
    weight = rg.tensor([1.0, 2.0])
    step = session.compile(lambda x: x * weight)
    x = rg.tensor([1.0, 1.0])
    assert step(x).tolist() == [1.0, 2.0]
    weight.mul_(3.0)
    assert step(x).tolist() == [3.0, 6.0]
    assert step(x).tolist() == [3.0, 6.0]
    weight.data = rg.tensor([5.0, 5.0])
    assert step(x).tolist() == [5.0, 5.0]


def test_captured_tensor_of_a_function_is_read_as_it_is_at_each_call(session: Any) -> None:
    table = np.array([1.0, 2.0])

    class Shifted(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return rg.from_numpy(x.numpy() + table)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    step = session.compile(lambda x: Shifted.apply(x))
    for _ in range(3):
        assert step(rg.tensor([0.0, 0.0])).tolist() == [1.0, 2.0]
    table[0] = 7.0
    assert step(rg.tensor([0.0, 0.0])).tolist() == [7.0, 2.0]


def test_kinds_of_arguments_are_recorded_apart(session: Any) -> None:
    step = session.compile(lambda x, power=2, flags=(): x**power if "off" not in flags else x)
    a, b = rg.tensor([2.0]), rg.tensor([[2.0, 3.0]])
    assert step(a).tolist() == [4.0]
    assert step(b).tolist() == [[4.0, 9.0]]
    assert step(a, power=3).tolist() == [8.0]
    assert step(a, flags=("off",)).tolist() == [2.0]
    assert step.recorded == 4
    assert step(b).tolist() == [[4.0, 9.0]]
    assert step(a, power=3).tolist() == [8.0]
    assert step.recorded == 4


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, complex])
def test_zeros_of_either_sign_are_recorded_apart_and_nan_is_itself(session: Any, kind: Any) -> None:
    @session.compile
    def step(x: Any, scale: Any) -> Any:
        return x * scale

    x = rg.tensor([1.0])
    signs = [np.signbit(step(x, kind(scale)).numpy().real).item() for scale in (0.0, -0.0, 0.0)]
    assert signs == [False, True, False]
    recorded = step.recorded
    for _ in range(2):
        step(x, kind("nan"))
    assert step.recorded == recorded + 1


def test_equal_arguments_that_are_made_of_something_else_are_recorded_apart(session: Any) -> None:
    @dataclass(frozen=True)
    class Options:
        name: str
        rate: float = field(compare=False)
        scales: tuple[Any, ...] = ()

    def run(x: Any, options: Any) -> Any:
        return x * options.rate * sum(options.scales, 1.0)

    step = session.compile(run)
    x = rg.tensor([1.0])
    for _ in range(2):
        assert step(x, Options("a", 1.0)).tolist() == [1.0]
        assert step(x, Options("a", 2.0)).tolist() == [2.0]
        assert step(x, Options("a", 2.0, (-0.0,))).tolist() == [2.0]
    assert (step.recorded, step.replayed) == (3, 3)

    kinds = session.compile(lambda x, numbers: x * (2.0 if True in {type(one) is bool for one in numbers} else 3.0))
    assert [kinds(x, frozenset(one)).item() for one in ([1], [True], [1], [True])] == [3.0, 2.0, 3.0, 2.0]


def test_one_tensor_as_two_arguments_is_not_two(session: Any) -> None:
    def run(x: Any, y: Any) -> Any:
        x.add_(1.0)
        return y * 2.0

    step = session.compile(run)
    a, b = rg.tensor([1.0]), rg.tensor([1.0])
    assert step(a, b).tolist() == [2.0]
    assert a.tolist() == [2.0]
    assert step(b, b).tolist() == [4.0]
    c = rg.tensor([5.0])
    assert step(c, c).tolist() == [12.0]
    assert c.tolist() == [6.0]


def test_argument_that_is_captured_too_is_one_tensor_with_it_and_another_argument_is_not(session: Any) -> None:
    weight, other = rg.tensor([1.0, 2.0]), rg.tensor([10.0, 20.0])
    step = session.compile(lambda x: x * weight + weight)
    for _ in range(2):
        assert step(weight).tolist() == [2.0, 6.0]
        assert step(other).tolist() == [11.0, 42.0]
        assert step(weight).tolist() == [2.0, 6.0]
    assert (step.recorded, step.replayed) == (2, 4)

    changed = session.compile(lambda x: (x.add_(1.0), weight * 1.0)[1])
    for first in (weight, other, weight, other):
        before = weight.tolist()
        expected = [value + 1.0 for value in before] if first is weight else before
        assert changed(first).tolist() == expected


def test_gradient_that_is_an_argument_or_captured_is_one_tensor_with_it(session: Any) -> None:
    weight: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    weight.grad = rg.tensor([3.0, 4.0])
    other, captured = rg.tensor([5.0, 6.0]), weight.grad
    step = session.compile(lambda g: g + weight.grad * 10.0 + captured * 100.0)
    for _ in range(2):
        assert step(weight.grad).tolist() == [333.0, 444.0]
        assert step(other).tolist() == [335.0, 446.0]
    weight.grad = rg.tensor([1.0, 1.0])
    for _ in range(2):
        assert step(captured).tolist() == [313.0, 414.0]
        assert step(weight.grad).tolist() == [311.0, 411.0]
        assert step(other).tolist() == [315.0, 416.0]
    assert step.replayed == 5


def test_gradient_of_an_argument_is_left_in_it(session: Any) -> None:
    step = session.compile(lambda x: (x * x).sum().backward())
    for value in (1.0, 2.0, 3.0):
        x = rg.tensor([value], requires_grad=True)
        assert step(x) is None
        assert x.grad is not None
        assert x.grad.tolist() == [2 * value]
    assert step.replayed == 2


def test_random_numbers_go_on_as_uncompiled() -> None:
    def draw(x: Any) -> Any:
        return x + rg.rand(3) + rg.randn(3), rg.randperm(4)

    def numbers(compiled: bool) -> list[Any]:
        rg.manual_seed(5)
        with rg.Session(workers=1) as session:
            run = session.compile(draw) if compiled else draw
            return [[t.tolist() for t in run(rg.zeros(3))] for _ in range(4)]

    assert numbers(True) == numbers(False)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * float(x[0]),
        lambda x: rg.tensor(x.detach().numpy()),
        lambda x: rg.rand(2) * x if rg.rand(1).item() else x,
        lambda x: x[x > 0],
    ],
    ids=["bool", "float", "numpy", "draw", "mask"],
)
def test_sync_point_inside_is_refused_with_line_and_remedy(session: Any, body: Any) -> None:
    with pytest.raises(SessionError, match=r"test_compiled\.py.*return the tensor and read it after the call"):
        session.compile(body)(rg.tensor([1.0, 2.0]))
    assert (rg.tensor([1.0]) * 2.0).tolist() == [2.0]  # the session goes on


def test_session_inside_is_refused(session: Any) -> None:
    def run(x: Any) -> Any:
        with rg.Session(workers=1):
            return x

    with pytest.raises(SessionError, match=r"a session is opened inside session\.compile"):
        session.compile(run)(rg.tensor([1.0]))
    with pytest.raises(SessionError, match=r"session.run\(\) is called"):
        session.compile(lambda x: session.run(x))(rg.tensor([1.0]))


def test_result_that_is_no_tensor_is_refused(session: Any) -> None:
    with pytest.raises(TypeError, match="returns tensors, None, and lists, tuples and dicts of them, not float"):
        session.compile(lambda x: (x, 1.0))(rg.tensor([1.0]))


def test_argument_that_cannot_be_told_from_others_is_refused(session: Any) -> None:
    with pytest.raises(TypeError, match="argument 0 of a compiled function is of type ndarray"):
        session.compile(lambda x: rg.tensor(x))(np.ones(2))
    with pytest.raises(TypeError, match="compile takes a function, got int"):
        session.compile(3)


def test_history_from_before_is_refused(session: Any) -> None:
    x = rg.tensor([1.0], requires_grad=True)
    y = x * 2.0
    with pytest.raises(SessionError, match=r"history that began before the call.*pass tensor.detach\(\)"):
        session.compile(lambda: (y * y).sum().backward())()


def test_result_has_no_history(session: Any) -> None:
    x = rg.tensor([1.0], requires_grad=True)
    step = session.compile(lambda: x * 2.0)
    for _ in range(3):
        result = step()
        assert not result.requires_grad
        assert result.grad_fn is None


def test_failed_replay_leaves_cells_as_they_were_and_says_so(session: Any) -> None:
    class Picky(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            if x.numpy()[0] == 3.0:
                raise ArithmeticError("three", 3)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    weight = rg.tensor([1.0], requires_grad=True)
    optimizer = sgd([weight])

    def run(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (Picky.apply(x) * weight).sum()
        loss.backward()
        optimizer.step()
        return loss

    step = session.compile(run)
    for _ in range(4):
        step(rg.tensor([1.0]))
    before = weight.detach().tolist()
    assert step.replayed >= 1
    lost = step(rg.tensor([3.0]))
    with pytest.raises(ArithmeticError, match="three") as caught:
        weight.detach().tolist()
    assert any("test_compiled.py" in note for note in caught.value.__notes__)
    assert weight.detach().tolist() == before
    with pytest.raises(RuntimeError):
        lost.tolist()
    step(rg.tensor([1.0]))
    assert weight.detach().tolist() != before


def test_call_in_a_transform_is_refused_and_in_another_compiled_one_is_a_part(session: Any) -> None:
    inner = session.compile(lambda x: x * 2.0)
    outer = session.compile(lambda x: inner(x) + 1.0)
    assert outer(rg.tensor([1.0])).tolist() == [3.0]
    assert inner.recorded == 0
    with pytest.raises(SessionError, match="inside a transform"):
        rg.func.vmap(inner)(rg.ones(2, 2))


def test_alias_of_a_parameter_follows_its_steps(session: Any) -> None:
    weight = rg.tensor([1.0], requires_grad=True)

    def run() -> Any:
        with rg.no_grad():
            weight.mul_(2.0)

    step = session.compile(run)
    for _ in range(3):
        step()
    assert step.replayed >= 1
    alias = weight.detach()
    step()
    assert step.reason.startswith("a tensor is changed in place of which others are views")
    assert alias.tolist() == weight.tolist() == [16.0]
    del alias
    step()
    step()
    assert weight.tolist() == [64.0]


def test_closed_session_is_named() -> None:
    with rg.Session(workers=1) as session:
        step = session.compile(lambda x: x)
    with pytest.raises(SessionError, match="is closed"):
        step(rg.tensor([1.0]))


def test_function_that_is_recorded_anew_each_time_is_warned_of(session: Any) -> None:
    history: list[Any] = []

    def run(x: Any) -> Any:
        history.append(len(history))
        return x * 2.0

    step = session.compile(run)
    with warnings.catch_warnings(record=True) as seen:  # around all calls, which are of one kind under equal filters
        warnings.simplefilter("always")
        for number in range(16):
            assert step(rg.tensor([float(number)])).tolist() == [2.0 * number]
    (warned,) = seen
    assert "were all recorded anew; the last because something that the function" in str(warned.message)
    assert len(history) == 16


# ---- what is recorded between replays -------------------------------------------------------------------------------


def sgd_step(session: Any) -> tuple[Any, rg.Tensor]:
    """Return a compiled step that was replayed before, and its parameter."""
    weight = rg.tensor([1.0, -2.0], requires_grad=True)
    optimizer = sgd([weight])

    def run(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (x * weight).sum()
        loss.backward()
        optimizer.step()
        return loss

    step = session.compile(run)
    for _ in range(3):
        step(rg.tensor([0.5, 0.25]))
    assert step.replayed >= 1
    session.run()
    return step, weight


def submitted_by(session: Any) -> list[int]:
    """Return a list that grows by the number of nodes of each submission."""
    submit, seen = session._driver.submit, list[int]()

    def spy(submission: Any, dropped: Any) -> Any:
        seen.append(len(submission.graph.nodes))
        return submit(submission, dropped)

    session._driver.submit = spy
    return seen


def test_sum_over_losses_is_submitted_when_it_is_read_and_not_between_replays(session: Any) -> None:
    step, _ = sgd_step(session)
    losses: list[Any] = []
    total = rg.zeros(())
    seen = submitted_by(session)
    for _ in range(10):
        loss = step(rg.tensor([0.5, 0.25]))
        total = total + loss
        losses.append(loss)
    assert len(seen) == 10
    assert total.item() == pytest.approx(sum(loss.item() for loss in losses))
    assert seen[10:] == [10]  # the sums, in one


def test_long_loop_submits_what_waits_from_time_to_time(session: Any) -> None:
    step, _ = sgd_step(session)
    total = rg.zeros(())
    seen = submitted_by(session)
    for _ in range(100):
        total = total + step(rg.tensor([0.5, 0.25]))
    assert 102 <= len(seen) <= 104
    assert max(seen) < 50
    assert np.isfinite(total.item())


def test_replay_that_reads_what_waits_or_writes_to_it_has_it_submitted_first(session: Any) -> None:
    step, weight = sgd_step(session)
    before = weight.detach().numpy()
    x = rg.tensor([0.5, 0.25]) * 2.0
    step(x)
    np.testing.assert_allclose(weight.detach().numpy(), before - 0.1 * np.array([1.0, 0.5]), rtol=1e-6)
    with rg.no_grad():
        weight.mul_(3.0)
    step(x)
    np.testing.assert_allclose(
        weight.detach().numpy(), 3.0 * (before - 0.1 * np.array([1.0, 0.5])) - 0.1 * np.array([1.0, 0.5]), rtol=1e-6
    )


def test_gradient_that_is_written_between_replays_is_what_the_next_one_adds_to(session: Any) -> None:
    weight = rg.tensor([1.0, 2.0], requires_grad=True)

    def run(x: Any) -> Any:
        (x * weight).sum().backward()

    step = session.compile(run)
    x = rg.tensor([1.0, 10.0])
    for _ in range(4):
        step(x)
    assert step.replayed >= 1
    with rg.no_grad():
        weight.grad.mul_(0.5)  # type: ignore[union-attr]
    step(x)
    assert weight.grad is not None
    assert weight.grad.tolist() == [3.0, 30.0]


def test_what_is_large_or_does_more_than_compute_does_not_wait(session: Any) -> None:
    step, _ = sgd_step(session)
    x = rg.tensor([0.5, 0.25])
    loss = step(x)
    large = loss * rg.ones(200_000, dtype=rg.float64)
    step(x)
    assert not session._log.records
    emitted: list[Any] = []
    session.on("loss", emitted.append)
    rg.emit("loss", loss)
    step(x)
    assert not session._log.records
    passed = rg.tensor([1.0], requires_grad=True)
    with session.deferred():
        (passed * loss.detach()).sum().backward()
    step(x)
    assert not session._log.records
    session.run().wait()
    assert emitted
    assert passed.grad is not None
    assert large.shape == (200_000,)


def test_sums_of_replays_fall_back_to_the_last_that_did_not_fail(session: Any) -> None:
    class Picky(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            if x.numpy()[0] == 3.0:
                raise ArithmeticError("three", 3)
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    step = session.compile(lambda x: Picky.apply(x).sum())
    for _ in range(3):
        step(rg.tensor([1.0]))
    assert step.replayed >= 1
    session.run().wait()
    total = rg.zeros(())
    total += step(rg.tensor([1.0]))
    failed = step(rg.tensor([3.0]))
    lost = failed * 2.0
    total += failed
    with pytest.raises(ArithmeticError, match="three"):
        lost.item()
    assert total.item() == 1.0
    assert step(rg.tensor([1.0])).item() == 1.0
    with pytest.raises(RuntimeError, match="dropped"):
        lost.item()


def test_tensors_of_one_value_are_told_apart_where_they_are_not_any_more(session: Any) -> None:
    product = session.compile(lambda a, b: (a * b).sum())
    both = rg.tensor([1.0, 2.0]) * 1.0
    assert product(both, both.detach()).item() == 5.0
    assert product(both, both.detach()).item() == 5.0
    assert product.replayed == 1
    assert product(rg.tensor([1.0, 2.0]) * 1.0, rg.tensor([10.0, 20.0]) * 1.0).item() == 50.0
    assert product.replayed == 1
    assert product(rg.tensor([1.0, 2.0]) * 1.0, rg.tensor([10.0, 30.0]) * 1.0).item() == 70.0
    assert product.replayed == 2


def test_reached_tensors_of_one_value_are_told_apart_where_they_are_not_any_more(session: Any) -> None:
    held = {"a": rg.tensor([1.0, 2.0]) * 1.0}
    held["b"] = held["a"].detach()

    def product(x: Any) -> Any:
        return (held["a"] * held["b"] * x).sum()

    compiled = session.compile(product)
    assert compiled(rg.tensor([1.0, 1.0])).item() == 5.0
    held["b"] = rg.tensor([10.0, 20.0]) * 1.0
    assert compiled(rg.tensor([1.0, 1.0])).item() == 50.0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x, x[:1]),
        lambda x: (x, x.detach()),
        lambda x: (x, x.view(2, 1).t()),
        lambda x: (lambda y: (y, y[:1]))(x * 2),
        lambda x: (lambda y: (y[1:], y.unsqueeze(0)))(x * 2),
        lambda x: (lambda y: (y.detach(), y.detach()))(x * 2),
    ],
)
@pytest.mark.parametrize("changed", [0, 1])
def test_results_that_share_memory_do_so_at_each_call(session: Any, function: Callable[..., Any], changed: int) -> None:
    def seen(call: Callable[..., Any]) -> Any:
        x = rg.ones(2)
        results = call(x)
        results[changed].add_(5)
        return [x.tolist(), *(result.tolist() for result in results)]

    step = session.compile(function)
    expected = seen(function)
    assert [seen(step) for _ in range(3)] == [expected] * 3
    assert step.reason.startswith("a result shares memory")


def test_views_of_what_is_not_returned_are_replayed(session: Any) -> None:
    step = session.compile(lambda x: ((x * 2)[:1], (x * 3).detach(), x))
    for _ in range(3):
        x = rg.ones(2)
        first, second, same = step(x)
        first.add_(1)
        second.add_(1)
        assert same is x
        assert [first.tolist(), second.tolist(), x.tolist()] == [[3.0], [4.0, 4.0], [1.0, 1.0]]
    assert step.replayed == 2


CHANGED: list[Callable[[], tuple[Any, Any]]] = [
    lambda: (lambda base: (base, base[1:4]))(rg.zeros(6)),
    lambda: (lambda base: (base, base.T))(rg.arange(6.0).reshape(2, 3)),
    lambda: (lambda base: (base, base[1:4]))(rg.arange(6.0) * 2.0),  # pending in a session
    lambda: (lambda base: (base, base.detach()))(rg.arange(6.0)),
    lambda: (lambda base: (base[::2], base))(rg.arange(6.0)),
    lambda: (lambda base: (base[:4], base[1:5]))(rg.arange(6.0)),
]


@pytest.mark.parametrize("make", CHANGED, ids=["slice", "transposed", "pending", "detached", "base", "overlapping"])
def test_dr_03_argument_that_shares_memory_is_changed_in_place_at_each_call(make: Callable[[], Any]) -> None:
    def run(values: Any) -> Any:
        values.mul_(2.0)
        values.add_(1.0)
        return values * 3.0

    def program(compiling: Callable[[Any], Any]) -> list[Any]:
        other, argument = make()
        step = compiling(run)
        seen: list[Any] = []
        for _ in range(3):
            seen += [step(argument).tolist(), other.tolist()]
            other.add_(1.0)  # seen by the next call
        return [*seen, argument.tolist()]

    expected = program(lambda fn: fn)
    with rg.Session(workers=1) as session:
        assert program(session.compile) == expected


def test_view_of_what_only_a_hidden_attribute_has_is_changed_at_each_call(session: Any) -> None:
    class Hidden:
        __slots__ = ("values",)

    hidden = Hidden()
    hidden.values = rg.arange(4.0) * 1.0

    def run() -> Any:
        return hidden.values[1:] + 1.0

    step = session.compile(run)
    assert [step().tolist() for _ in range(2)] == [[2.0, 3.0, 4.0]] * 2
    hidden.values = hidden.values * 10.0
    session._submitter.submit()
    assert step().tolist() == [11.0, 21.0, 31.0]
    assert step.replayed in (0, 1)


def test_what_was_recorded_before_something_was_learned_of_a_backward_is_not_replayed(session: Any) -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)

    def step(factor: Any) -> Any:
        x.grad = None
        (x * factor).sum().backward()
        return x.grad

    compiled = session.compile(step)
    for number in range(4):
        assert compiled(rg.tensor(float(number))).tolist() == [number] * 2
    assert (compiled.recorded, compiled.replayed) == (2, 2), "without a gradient to begin with, and with one"
    Square.apply(x, 1.0).sum().backward()  # the first backward of this Function
    session.run()
    session._waiter.wait_for_everything()
    for number in range(2):
        assert compiled(rg.tensor(float(number))).tolist() == [number] * 2
    assert (compiled.recorded, compiled.replayed) == (3, 3)
    assert compiled.reason == "something was learned of the backward of a Function"


def test_what_user_code_reads_is_watched_where_the_function_does_not_reach_that_code(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    factor = 2.0

    class Scaled(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * factor

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * factor

    monkeypatch.setattr(rg, "scaled_of_the_test", lambda: Scaled, raising=False)
    step = session.compile(lambda x: rg.scaled_of_the_test().apply(x) * 1.0)  # pyright: ignore[reportAttributeAccessIssue]
    x = rg.tensor([1.0])
    found: list[float] = []
    for factor in (2.0, 2.0, 2.0, 5.0, 5.0):  # noqa: B007
        found += step(x).tolist()
    assert found == [2.0, 2.0, 2.0, 5.0, 5.0]
    assert step.replayed >= 1


def test_a_call_under_another_default_dtype_is_recorded_anew() -> None:
    before = rg.get_default_dtype()
    with rg.Session() as session:
        scaled = session.compile(lambda x: x * 1.5)
        assert scaled(rg.tensor([1, 2])).dtype == rg.float32
        rg.set_default_dtype(rg.float64)
        try:
            assert scaled(rg.tensor([1, 2])).dtype == rg.float64
        finally:
            rg.set_default_dtype(before)


def test_a_recording_for_leaves_does_not_serve_tensors_with_a_history() -> None:
    def step(x: Any) -> None:
        (x * 2).sum().backward()

    with rg.Session() as session:
        compiled = session.compile(step)
        leaf, other = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
        for _ in range(3):
            compiled(leaf)
        with pytest.raises(SessionError):
            compiled(other * 3)
