"""Pins: a node runs where its user asked."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.errors import PlanError, SessionError


def test_pinned_nodes_run_on_the_worker_asked_for() -> None:
    with rg.Session(workers=2) as session:
        x = rg.tensor([1.0, 2.0])
        with rg.place(worker=1):
            y = x * 2.0
        with rg.place(worker=0):
            z = y + 1.0
        assert z.numpy().tolist() == [3.0, 5.0]
        assert session.last_run is not None
        assert [segment.worker for segment in session.last_run.plan.segments] == [1, 0]


@pytest.mark.parametrize(("workers", "have"), [(1, "one worker, number 0"), (2, "workers 0 to 1")])
def test_a_worker_that_does_not_exist_is_refused(workers: int, have: str) -> None:
    with rg.Session(workers=workers):
        with pytest.raises(PlanError, match=rf"worker=5\): this session has {have}"), rg.place(worker=5):
            pass
        assert (rg.tensor([1.0]) * 2.0).numpy().tolist() == [2.0]


def test_a_program_with_pins_runs_eagerly_too() -> None:
    with rg.place(worker=3):
        assert (rg.tensor([1.0]) * 2.0).tolist() == [2.0]


@pytest.mark.parametrize("worker", ["a", None, 1.0])
def test_a_pin_is_a_number(worker: Any) -> None:
    with pytest.raises(TypeError, match=f"takes the number of a worker, such as 0; got {worker!r}"):
        rg.place(worker=worker).__enter__()
    with pytest.raises(ValueError, match=r"numbered from 0; rg.place\(worker=-1\) names none"):
        rg.place(worker=-1).__enter__()


class Heavy(rg.autograd.Function):
    """Asks for more than a small worker has."""

    resources: ClassVar[dict[str, float]] = {"num_cpus": 4, "fpga": 1}

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2.0


def passed() -> list[float]:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    Heavy.apply(x).sum().backward()
    assert x.grad is not None
    return x.grad.numpy().tolist()


def test_resources_that_workers_offer_are_enough_and_eager_code_has_no_workers() -> None:
    assert passed() == [2.0, 2.0]
    with rg.Session(workers=2, worker_options={"num_cpus": 4, "resources": {"fpga": 1}}):
        assert passed() == [2.0, 2.0]


def test_resources_that_no_worker_offers_are_refused_naming_node_and_workers() -> None:
    with rg.Session(workers=2, worker_options={"num_cpus": 4, "memory": 1e9}):
        message = (
            r"Heavy asks for fpga 1, num_cpus 4, and no worker offers it \(worker 0: cpu, memory 1e\+09, num_cpus 4"
        )
        with pytest.raises(PlanError, match=message):
            passed()
        assert (rg.tensor([1.0]) * 2.0).numpy().tolist() == [2.0]


def test_what_a_compiled_function_asks_for_is_asked_each_time() -> None:
    options = {"num_cpus": 4, "resources": {"fpga": 1}}
    with rg.Session(workers=1, worker_options=options) as session:
        double = session.compile(lambda x: Heavy.apply(x))
        for _ in range(3):
            assert double(rg.tensor([1.0])).numpy().tolist() == [2.0]
            assert session.last_run is not None
            (demand,) = session.last_run._graph.demands
            assert (demand.name, demand.needs) == ("Heavy", (("fpga", 1.0), ("num_cpus", 4.0)))


@pytest.mark.parametrize(
    ("resources", "error"),
    [([("num_cpus", 1)], TypeError), ({"num_cpus": "1"}, TypeError), ({"num_cpus": -1}, ValueError)],
)
def test_resources_that_say_nothing_are_refused_on_their_line(resources: Any, error: type[Exception]) -> None:
    wrong = type("Wrong", (Heavy,), {"resources": resources})
    with rg.Session(workers=1), pytest.raises(error, match=r"Wrong\.resources"):
        wrong.apply(rg.tensor([1.0]))


def test_a_device_is_asked_of_the_workers() -> None:
    with rg.Session(workers=2) as session:
        with rg.device("cpu"), rg.place(worker=1):
            y = rg.tensor([1.0]) * 2.0
        assert y.numpy().tolist() == [2.0]
        assert session.run().plan.segments[0].worker == 1
        with rg.place(worker=0), rg.device("cuda:0"):
            z = rg.tensor([1.0]) + 2.0
        message = r"'add' \(.*\) cannot run: it asks for device cuda:0, and no worker offers it \(worker 0: cpu"
        with pytest.raises(PlanError, match=message):
            z.numpy()
        assert (rg.tensor([1.0]) * 2.0).numpy().tolist() == [2.0]


def test_a_device_needs_a_name_and_pins_only_while_its_block_is_open() -> None:
    with rg.device("cpu"):  # eagerly it is where factories make tensors
        assert rg.zeros(1).device == rg.device("cpu")
    with rg.Session(workers=2) as session:
        with rg.place(worker=1), rg.device("cpu"):
            inner = rg.tensor([1.0]) * 2.0
        outer = rg.tensor([1.0]) * 3.0
        assert (inner + outer).numpy().tolist() == [5.0]
        assert session._recorder.pin == -1
    for name in ("", "cuda:", "cuda:x", "a b"):
        with rg.Session(workers=1), pytest.raises(ValueError, match="is named like"), rg.device(name):
            pass


def test_a_tensor_of_a_device_is_refused_in_a_session() -> None:
    class Twice(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

    with use_stand_in(1):
        x = rg.tensor([1.0, 2.0], device="cuda", requires_grad=True)
        with rg.Session(workers=1):
            y = rg.tensor([1.0, 2.0])
            for use in (lambda: x * 2.0, lambda: y + x, lambda: Twice.apply(x), lambda: x.cpu(), lambda: y.to("cuda")):
                with pytest.raises(SessionError, match="cuda:0"):
                    use()
            assert (y * 2.0).tolist() == [2.0, 4.0]


def test_what_is_asked_for_is_explained_before_a_run_and_other_machines_are_taken_to_have_it() -> None:
    with rg.Session(workers=2, worker_options={"num_cpus": 4, "resources": {"fpga": 1}}) as session:
        Heavy.apply(rg.tensor([1.0])).numpy()
        y = Heavy.apply(rg.tensor([1.0]))
        assert session.explain(y, workers=3).elsewhere is not None
        assert y.numpy().tolist() == [2.0]
    with rg.Session(workers=2) as session, pytest.raises(PlanError, match="Heavy asks for fpga 1"):
        Heavy.apply(rg.tensor([1.0]))
