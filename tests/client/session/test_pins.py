"""Pins: a node runs where its user asked."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.errors import DeviceError, PlanError


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


class Doubled(rg.autograd.Function):
    """Its context can leave its worker unless it is pinned there."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.factor = 2.0
        ctx.save_for_backward(x)
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * ctx.factor + 0.0 * x


@pytest.mark.parametrize("strict", [False, True])
def test_a_backward_may_be_placed_on_another_worker_than_its_forward(strict: bool) -> None:
    with rg.Session(workers=2, strict=strict) as session:
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        Doubled.apply(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 2.0]
        with session.deferred():
            with rg.place(worker=0):
                y = Doubled.apply(x)
            with rg.place(worker=1):
                y.sum().backward()
        assert x.grad.tolist() == [4.0, 4.0]
        assert session.last_run is not None
        assert {segment.worker for segment in session.last_run.plan.segments} == {0, 1}


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
    with pytest.raises(TypeError, match="the number of a worker, takes a whole number of at least 0, got "):
        rg.place(worker=worker).__enter__()
    with pytest.raises(ValueError, match="takes a whole number of at least 0, got -1"):
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


def test_a_block_of_a_device_is_where_factories_make_tensors() -> None:
    with use_stand_in(1), rg.Session(workers=2, gpus=1) as session:
        host = rg.tensor([1.0])
        with rg.device("cuda:0"):
            y = host * 2.0
            z = rg.tensor([1.0]) + 2.0
        assert (str(y.device), str(z.device)) == ("cpu", "cuda:0")
        assert y.numpy().tolist() == [2.0]
        assert z.tolist() == [3.0]
        assert session.devices == (rg.device("cuda:0"),)


def test_a_device_that_no_worker_serves_is_refused_on_its_line() -> None:
    with rg.Session(workers=1, gpus=0) as session:
        assert session.devices == ()
        for make in (
            lambda: rg.ones(2, device="cuda"),
            lambda: rg.ones(2).to("cuda:0"),
            lambda: rg.ones(2).cuda(),
        ):
            with pytest.raises(DeviceError, match=r"'cuda(:0)?' is not among those of this session: .* serve no GPU"):
                make()
        assert rg.ones(2).tolist() == [1.0, 1.0]
    with use_stand_in(2), rg.Session(workers=2, gpus=1), pytest.raises(DeviceError, match="serve cuda:0; ask for more"):
        rg.ones(2, device="cuda:1")


def test_a_device_needs_a_name_and_pins_only_while_its_block_is_open() -> None:
    with rg.device("cpu"):  # eagerly it is where factories make tensors
        assert rg.zeros(1).device == rg.device("cpu")
    with rg.Session(workers=2) as session:
        with rg.place(worker=1), rg.device("cpu"):
            inner = rg.tensor([1.0]) * 2.0
        outer = rg.tensor([1.0]) * 3.0
        assert (inner + outer).numpy().tolist() == [5.0]
        assert session._log.pin == -1
    for name in ("", "cuda:", "cuda:x", "a b"):
        with rg.Session(workers=1), pytest.raises(ValueError, match="is named like"), rg.device(name):
            pass


def test_tensors_of_two_devices_do_not_meet_in_a_session() -> None:
    with use_stand_in(2), rg.Session(workers=1):
        x, y, z = rg.ones(2, device="cuda:0"), rg.ones(2, device="cuda:1"), rg.ones(2)
        for use in (lambda: x + y, lambda: x * z, lambda: z @ x, lambda: rg.cat([y, z])):
            with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but found at least"):
                use()
        assert (x + y.to("cuda:0") + rg.tensor(1.0)).tolist() == [3.0, 3.0]  # a scalar of the host may meet them


def test_functions_are_placed_by_their_devices() -> None:
    class OnGpu(rg.autograd.Function):
        devices = ("cuda",)

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2.0

    class OnHost(OnGpu):
        devices = ("cpu",)

    with use_stand_in(1), rg.Session(workers=2, gpus=1):
        x = rg.ones(2, requires_grad=True)
        OnGpu.apply(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 2.0]
        with rg.place(worker=1):
            assert OnHost.apply(x).tolist() == [2.0, 2.0]
        y = rg.ones(2, device="cuda")
        with pytest.raises(
            DeviceError, match=r"OnHost runs on cpu, as its `devices` say, and was given a tensor on cuda:0"
        ):
            OnHost.apply(y)
        with (
            rg.place(worker=1),
            pytest.raises(PlanError, match=r"run on worker 1, as `rg\.place` asks, which lacks"),
        ):
            (y + 1.0).tolist()
    with use_stand_in(1), pytest.raises(DeviceError, match="OnHost runs on cpu"):
        OnHost.apply(rg.ones(2, device="cuda"))


@pytest.mark.parametrize(
    ("devices", "error"), [("cuda", TypeError), (5, TypeError), ((), ValueError), (("gpu",), ValueError)]
)
def test_devices_that_are_none_are_refused(devices: Any, error: type[Exception]) -> None:
    wrong = type("Wrong", (Heavy,), {"devices": devices, "resources": None})
    with rg.Session(workers=1), pytest.raises(error, match=r"Wrong\.devices"):
        wrong.apply(rg.tensor([1.0]))


def test_what_is_asked_for_is_explained_before_a_run_and_other_machines_are_taken_to_have_it() -> None:
    with rg.Session(workers=2, worker_options={"num_cpus": 4, "resources": {"fpga": 1}}) as session:
        Heavy.apply(rg.tensor([1.0])).numpy()
        y = Heavy.apply(rg.tensor([1.0]))
        assert session.explain(y, workers=3).elsewhere is not None
        assert y.numpy().tolist() == [2.0]
    with rg.Session(workers=2) as session, pytest.raises(PlanError, match="Heavy asks for fpga 1"):
        Heavy.apply(rg.tensor([1.0]))
