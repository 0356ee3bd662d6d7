"""What a recorded call leaves to be done again."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import raygrad as rg


@pytest.fixture
def session() -> Any:
    with rg.Session(workers=1) as session:
        yield session


def test_graph_of_a_replay_keeps_only_results_and_cells(session: Any) -> None:
    weight = rg.tensor([1.0, 2.0], requires_grad=True)

    def run(x: Any) -> Any:
        loss = ((x * weight).tanh() ** 2).sum()
        loss.backward()
        return loss

    step = session.compile(run)
    for number in range(3):
        step(rg.tensor([float(number), 1.0]))
    (recordings,) = step._kinds.values()
    graph = recordings[0].replay._graph
    assert len(graph.keep) == 2  # the loss, and the gradient
    assert step.replayed >= 1


def test_records_of_replays_bring_results_and_no_large_parameters_gradients_and_state(session: Any) -> None:
    weight = rg.tensor(np.arange(2000.0), requires_grad=True)
    bias = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.SGD([weight, bias], lr=0.5, momentum=0.9)

    def run(x: Any) -> Any:
        optimizer.zero_grad()
        scaled = x * weight + bias
        scaled.sum().backward()
        optimizer.step()
        return scaled

    step = session.compile(run)
    x = rg.ones(2000, dtype=rg.float64)
    for _ in range(4):
        step(x)
    assert step.replayed >= 1
    scaled = step(x)
    (record,) = session.run().wait().records
    brought = [value.size for _, value in record.results]
    assert sorted(brought) == [1, 1, 1, 2000]  # the bias, its gradient and momentum; what was returned
    expected, before, momentum = np.arange(2000.0), np.zeros(2000), 0.0
    for _ in range(5):
        before = expected.copy()
        momentum = 0.9 * momentum + 1.0
        expected -= 0.5 * momentum
    np.testing.assert_allclose(weight.detach().numpy(), expected)
    assert weight.grad is not None
    assert weight.grad.numpy().tolist() == [1.0] * 2000
    assert scaled.numpy()[1] - scaled.numpy()[0] == pytest.approx(before[1] - before[0])


def test_values_that_the_first_call_left_elsewhere_are_its_own(session: Any) -> None:
    left: list[Any] = []

    def run(x: Any) -> Any:
        y = x * 2.0
        if not left:
            left.append(y + 1.0)
        return y

    step = session.compile(run)
    assert step(rg.tensor([1.0])).tolist() == [2.0]
    assert left[0].tolist() == [3.0]
    for number in range(3):
        assert step(rg.tensor([float(number)])).tolist() == [2.0 * number]
    assert left[0].tolist() == [3.0]


def test_version_counters_move_as_recorded(session: Any) -> None:
    total = rg.zeros(1)

    def run(x: Any) -> Any:
        total.add_(x)
        total.mul_(2.0)

    step = session.compile(run)
    for number in range(4):
        step(rg.tensor([1.0]))
        assert total._version == 2 * (number + 1)
    assert step.replayed >= 2
    assert total.tolist() == [30.0]


def test_results_that_are_one_tensor_stay_one(session: Any) -> None:
    x = rg.tensor([1.0], requires_grad=True)

    def run(a: Any) -> Any:
        x.grad = None
        y = a * x
        y.sum().backward()
        return x.grad, y, y

    step = session.compile(run)
    for number in range(4):
        grad, y, again = step(rg.tensor([float(number)]))
        assert grad is x.grad
        assert y is again
    assert step.replayed >= 1


def test_replays_let_go_of_what_nobody_holds(session: Any) -> None:
    weight = rg.tensor([1.0], requires_grad=True)
    optimizer = rg.optim.SGD([weight], lr=0.1, momentum=0.9)

    def run(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (x * weight).sum()
        loss.backward()
        optimizer.step()
        return loss

    step = session.compile(run)
    for _ in range(4):
        step(rg.tensor([1.0])).tolist()
    gc.collect()
    session._submitter.submit()
    runs = len(session._driver._runs)
    for _ in range(10):
        step(rg.tensor([1.0])).tolist()
    session._submitter.submit()
    assert step.replayed >= 10
    assert len(session._driver._runs) <= runs + 1


@pytest.mark.filterwarnings("ignore:the thread .* computes at once")
def test_tensor_that_is_reached_in_a_hidden_way_is_read_anew_after_a_change_in_place(session: Any) -> None:
    weight = rg.tensor([1.0, 2.0])
    hidden = weakref.ref(weight)
    step = session.compile(lambda x: x * hidden())
    for _ in range(3):
        assert step(rg.ones(2)).tolist() == [1.0, 2.0]
    assert step.replayed == 2
    changes = threading.Thread(target=lambda: weight.mul_(10.0))  # where the session is not: the array stays the same
    changes.start()
    changes.join()
    assert step(rg.ones(2)).tolist() == [10.0, 20.0]


@pytest.mark.parametrize("late", [False, True])
def test_tensor_that_is_reached_in_a_hidden_way_is_read_anew_after_numpy_wrote_to_it(session: Any, late: bool) -> None:
    weight = rg.tensor([[1.0, 2.0], [3.0, float("nan")]]) if late else rg.from_numpy(np.ones((2, 2)).T)
    hidden = weakref.ref(weight)
    step = session.compile(lambda x: x * hidden())
    for _ in range(3):
        assert np.array_equal(step(rg.ones(2, 2)).numpy(), weight.numpy() if late else np.ones((2, 2)), equal_nan=True)
    assert (step.recorded, step.replayed) == (1, 2)
    weight.numpy()[0, 1] = 7.0
    assert step(rg.ones(2, 2)).tolist()[0][1] == 7.0
