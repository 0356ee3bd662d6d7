"""Sessions whose tensors are on devices: what moves, where it runs, and that nothing else moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import StandIn, use_stand_in
from raygrad.errors import DroppedError, MissingKernel


@pytest.fixture
def gpus() -> Iterator[StandIn]:
    with use_stand_in(2) as devices:
        yield devices


def moved(devices: StandIn) -> tuple[int, int, int]:
    return devices.transfers.to_device, devices.transfers.to_host, devices.transfers.between


class Square(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return rg.as_tensor(x.read() ** 2)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * grads[0] * x


OPTIONS: list[dict[str, Any]] = [{"workers": 1}, {"workers": 3, "gpus": 2}, {"workers": 2, "gpus": 2, "strict": True}]


@pytest.mark.parametrize("options", OPTIONS)
def test_a_step_moves_what_it_lists_and_nothing_else(gpus: StandIn, options: dict[str, Any]) -> None:
    x = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with rg.Session(**options) as session:
        Square.apply(rg.ones(3, device="cuda:0")).sum().tolist()  # the first run of a Function compares its arguments
        Square.apply(rg.ones(3, device="cuda:0", requires_grad=True)).sum().backward()
        session._waiter.wait_for_everything()
        gpus.forget_transfers()
        with session.deferred():
            loss = (Square.apply(x.to("cuda:0") * 2.0).exp() * 0.1).sum().cpu()
            loss.backward()
            explained = session.explain()
        assert x.grad is not None
        assert np.allclose(x.grad.numpy(), 0.8 * x.detach().numpy() * np.exp(4 * x.detach().numpy() ** 2))
        listed = explained.plan.transfers
        assert sorted((one.source, one.target) for one in listed) == [
            ("cpu", "cuda:0"), ("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:0", "cpu"),
        ]  # fmt: skip
        assert moved(gpus) == (2, 2, 0)
        assert "Transfers between devices" in str(explained)
        session._waiter.wait_for_everything()


def test_values_go_from_a_device_to_another_by_a_node(gpus: StandIn) -> None:
    with rg.Session(workers=2, gpus=2) as session:
        x = rg.tensor([1.0, 2.0], device="cuda:0", requires_grad=True)
        y = (x * 2.0).to("cuda:1")
        (y * 3.0).sum().backward()
        assert x.grad is not None
        assert (str(y.device), str(x.grad.device)) == ("cuda:1", "cuda:0")
        assert session.last_run is not None
        assert {segment.worker for segment in session.last_run.plan.segments} == {0, 1}
        session._waiter.wait_for_everything()
        assert moved(gpus) == (1, 0, 2)
        assert x.grad.tolist() == [6.0, 6.0]


def test_a_tensor_of_this_process_is_not_moved_to_a_worker_of_it(gpus: StandIn) -> None:
    x = rg.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
    gpus.forget_transfers()
    with rg.Session(workers=2, gpus=2):
        y = Square.apply(x)
        y.sum().backward()
        kept = y.detach() + 1.0
    assert moved(gpus) == (0, 0, 0)
    assert x.grad is not None
    assert str(x.grad.device) == str(kept.device) == "cuda:1"
    assert (x.grad.tolist(), kept.tolist()) == ([2.0, 4.0], [2.0, 5.0])


def test_in_a_strict_session_a_tensor_of_a_device_is_sent_and_listed(gpus: StandIn) -> None:
    x = rg.tensor([1.0, 2.0], device="cuda:1")
    gpus.forget_transfers()
    with rg.Session(workers=2, gpus=2, strict=True) as session:
        y = x * 2.0
        listed = session.explain(y).plan.transfers
        assert [(one.worker, one.source, one.target) for one in listed] == [(-1, "cuda:1", "cpu"), (1, "cpu", "cuda:1")]
        session.run(y)
        session._waiter.wait_for_everything()
        assert moved(gpus) == (1, 1, 0)
    assert (str(y.device), y.tolist()) == ("cuda:1", [2.0, 4.0])


def test_a_tensor_that_a_factory_made_outlives_the_failure_of_a_run(gpus: StandIn) -> None:
    class Fails(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            raise LookupError("on purpose")

    with rg.Session(workers=2, gpus=1):
        x = rg.ones(2, device="cuda")
        y = x * 2.0
        with pytest.raises(LookupError):
            Fails.apply(y)
        assert (x + 1.0).tolist() == [2.0, 2.0]
        with pytest.raises(DroppedError):
            y.tolist()


def test_an_op_that_numpy_alone_can_do_is_refused_on_its_line(gpus: StandIn) -> None:
    with rg.Session(workers=1):
        x = rg.ones(2, device="cuda")
        with pytest.raises(MissingKernel, match="'lgamma' has no kernel for device cuda"):
            x.lgamma()
        assert x.sum().item() == 2.0


def test_arguments_on_a_device_are_not_written_to(gpus: StandIn) -> None:
    class Writes(rg.autograd.Function):
        writable_inputs: ClassVar[bool] = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.add_(1.0)
            return x * 2.0

    with rg.Session(workers=1):
        x = rg.ones(2, device="cuda")
        with pytest.raises(RuntimeError, match="Writes changed argument 0 in place without saying so"):
            Writes.apply(x)
        assert x.tolist() == [1.0, 1.0]


def test_text_and_numbers_of_a_pending_tensor_tell_its_device(gpus: StandIn) -> None:
    with rg.Session(workers=1):
        x = rg.tensor([1.0, 2.0], device="cuda") * 2.0
        assert "device='cuda:0'" in repr(x)
        assert str(x) == "tensor([2., 4.], device='cuda:0')"
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            x.numpy()
        assert x.numpy(force=True).tolist() == [2.0, 4.0]
        assert float(x.sum()) == 6.0
        assert x.is_cuda
        assert x.get_device() == 0


def test_what_is_emitted_is_of_the_host(gpus: StandIn) -> None:
    seen: list[Any] = []
    with rg.Session(workers=1) as session:
        session.on("value", seen.append)
        rg.emit("value", rg.ones(2, device="cuda") * 3.0)
        session.run()
        session._waiter.wait_for_everything()
    assert [one.tolist() for one in seen] == [[3.0, 3.0]]


@pytest.mark.parametrize("strict", [False, True])
def test_a_compiled_step_replays_its_moves(gpus: StandIn, strict: bool) -> None:
    w = rg.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    with rg.Session(workers=2, gpus=1, strict=strict) as session:

        @session.compile
        def step(x: Any) -> Any:
            loss = (w * x.to("cuda")).sum()
            loss.backward()
            assert w.grad is not None
            with rg.no_grad():
                w.sub_(w.grad * 0.5)
            w.grad = None
            return loss.cpu()

        found = [step(rg.tensor([1.0, float(number)])).item() for number in range(4)]
        assert step.replayed
    expected: list[float] = []
    weights = np.array([1.0, 2.0])
    for number in range(4):
        x = np.array([1.0, float(number)])
        expected.append(float(weights @ x))
        weights -= 0.5 * x
    assert found == expected
    assert w.tolist() == weights.tolist()
