"""Sessions on a Ray of logical GPUs, which simulated ones stand for in the workers' processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.serving import backend_for_kind, serve
from raygrad.client.session.session import executor_of
from raygrad.errors import DeviceError, PlanError, WorkerLost

from ..ray_head import ray_of_its_own

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def ray_with_gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Ray with two logical GPUs of the module's own."""
    pytest.importorskip("ray")
    with ray_of_its_own(tmp_path_factory.mktemp("away"), num_gpus=2) as ray:
        yield ray


@pytest.fixture(scope="module")
def session(ray_with_gpus: Any) -> Iterator[Any]:
    """Two workers with a GPU each, and one without."""
    with use_stand_in(2):
        opened = rg.Session("ray", workers=3, gpus=2)
        yield opened
        opened.close(discard=True)


@pytest.fixture
def recording(session: Any) -> Iterator[Any]:
    """Make the module's session ambient for one test, and leave it open."""
    from raygrad.autograd.core.modes import state

    state.recorder = session._recorder
    yield session
    state.recorder = None


class Seen(rg.autograd.Function):
    """Emits what it sees of the process that runs it, and of the transfers there since it was last asked."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        backend: Any = backend_for_kind("cuda")
        moved = backend.inner.transfers
        local = x.read().device.id if x.is_cuda else -1
        shown = os.environ.get("CUDA_VISIBLE_DEVICES")
        counts = (moved.to_device, moved.to_host, moved.between)
        backend.inner.forget_transfers()
        rg.emit("seen", (os.getpid(), str(x.device), local, shown, rg.cuda.current_device(), counts))
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def free_gpus(ray: Any, count: float) -> bool:
    """Wait until Ray has so many GPUs to give: it takes some tenths of a second to notice that actors are gone."""
    deadline = time.monotonic() + 60
    while ray.available_resources().get("GPU", 0.0) != count and time.monotonic() < deadline:
        time.sleep(0.05)
    return ray.available_resources().get("GPU", 0.0) == count


class Held(Seen):
    """Emits how many bytes the arrays on its GPU hold."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        rg.emit("held", rg.cuda.memory_allocated())
        return x * 1.0


def seen_on(session: Any, worker: int) -> tuple[Any, ...]:
    found: list[Any] = []
    session.on("seen", found.append)
    with rg.place(worker=worker):
        Seen.apply(rg.ones(1)).tolist()
    session._listener.handlers.clear()
    return found[-1]


def test_actors_hold_the_gpus_of_their_session_and_give_them_back(ray_with_gpus: Any, session: Any) -> None:
    assert free_gpus(ray_with_gpus, 0)
    assert session.devices == (rg.device("cuda:0"), rg.device("cuda:1"))
    workers = executor_of(session).cluster.workers
    assert [worker.devices for worker in workers] == [("cpu", "cuda:0"), ("cpu", "cuda:1"), ("cpu",)]
    assert [dict(worker.resources).get("num_gpus") for worker in workers] == [1.0, 1.0, None]


def test_h11_numbers_are_the_sessions_whatever_a_process_sees(recording: Any) -> None:
    found: list[Any] = []
    recording.on("seen", found.append)
    for name in ("cuda:0", "cuda:1"):
        Seen.apply(rg.ones(2, device=name)).tolist()
    recording._listener.handlers.clear()
    pids, devices, local, shown, current, _ = zip(*found, strict=True)
    assert list(pids) == list(executor_of(recording).pids()[:2])
    assert (devices, local, current) == (("cuda:0", "cuda:1"), (0, 0), (0, 1))
    assert set(shown) == {"0", "1"}


def test_segments_of_a_gpu_go_to_its_worker_and_move_what_the_plan_lists(recording: Any) -> None:
    for worker in (0, 1):
        seen_on(recording, worker)
    x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
    y = (x.to("cuda:0") * 3.0).to("cuda:1")
    loss = (y * y).sum().cpu()
    with recording.deferred():
        loss.backward()
    listed = recording.explain().plan.transfers
    assert sorted([(one.source, one.target) for one in listed if one.node >= 0]) == [
        ("cpu", "cuda:0"),
        ("cpu", "cuda:1"),
        ("cuda:0", "cpu"),
        ("cuda:0", "cuda:1"),
        ("cuda:1", "cpu"),
        ("cuda:1", "cuda:0"),
    ]
    crossing = [(one.worker, one.source) for one in listed if one.node < 0]
    assert sorted(crossing) == [(0, "cuda:1"), (1, "cuda:0")]
    assert x.grad.tolist() == [18.0, 36.0]
    # what another process reads is copied to the host where it is made; the node that moves it on copies it from there
    assert [seen_on(recording, worker)[-1] for worker in (0, 1)] == [(1 + 1, 1 + 1, 0), (1 + 1, 1 + 1, 0)]


class Half(rg.autograd.Function):
    """Asks for half a GPU, whatever it is given."""

    resources: ClassVar[dict[str, float]] = {"num_gpus": 0.5}

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        rg.emit("pid", os.getpid())
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        rg.emit("pid", os.getpid())
        (x,) = ctx.saved_tensors
        return grad * 2.0 * x


class Two(Half):
    resources: ClassVar[dict[str, float]] = {"num_gpus": 2}


def test_what_asks_for_a_part_of_a_gpu_runs_where_there_is_one(recording: Any) -> None:
    pids: list[int] = []
    recording.on("pid", pids.append)
    for _ in range(2):
        x: Any = rg.tensor([1.0, 2.0], requires_grad=True)
        Half.apply(x).sum().backward()
        assert x.grad.tolist() == [2.0, 4.0]
    recording._listener.handlers.clear()
    assert len(pids) == 4
    assert set(pids) <= set(executor_of(recording).pids()[:2])


def test_what_asks_for_more_than_any_worker_has_is_refused_by_name_and_line(recording: Any) -> None:
    with pytest.raises(PlanError, match=r"'Two' \(.*test_gpus_on_ray\.py:\d+ .* asks for num_gpus 2, and no worker"):
        Two.apply(rg.ones(2)).tolist()
    with (
        rg.place(worker=2),
        pytest.raises(PlanError, match=r"must run on worker 2, .* it needs cuda:1, and there is worker 2: cpu"),
    ):
        (rg.ones(2, device="cuda:1") * 2.0).tolist()
    with pytest.raises(DeviceError, match=r"'cuda:2' is not among those of this session: its workers serve cuda:0, cu"):
        rg.ones(2, device="cuda:2")


class Makes(rg.autograd.Function):
    """Makes a tensor on a GPU of which its worker may have none."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return rg.ones(2, device="cuda").cpu() + x


def test_a_worker_without_a_gpu_uses_none_of_others(recording: Any) -> None:
    with rg.place(worker=2), pytest.raises(DeviceError, match="worker 2 of this session serves no GPU; name 'cuda' in"):
        Makes.apply(rg.ones(2)).tolist()


@pytest.mark.parametrize("policy", ["store", "worker", "recompute"])
def test_saved_tensors_stay_on_their_gpu_under_every_policy(recording: Any, policy: str) -> None:
    kept = type("Kept", (Half,), {"saved_policy": policy})
    grads: list[Any] = []
    for _ in range(2):
        x: Any = rg.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
        loss = kept.apply(x).sum()
        assert loss.item() == 5.0  # forward has run, backward has not
        seen_on(recording, 1)
        loss.backward()
        recording._waiter.wait_for_everything()
        assert seen_on(recording, 1)[-1] == (0, 0, 0)
        grads.append(x.grad.tolist())
    assert grads == [[2.0, 4.0], [2.0, 4.0]]


def test_a_checkpointed_region_runs_again_on_its_gpu(recording: Any) -> None:
    def layers(x: Any) -> Any:
        for _ in range(3):
            x = Half.apply(x).sin()
        return x

    grads: list[Any] = []
    for fn in (layers, lambda x: rg.checkpoint(layers, x)):
        x: Any = rg.tensor([0.5, 0.25], dtype=rg.float64, device="cuda:0", requires_grad=True)
        fn(x).sum().backward()
        grads.append(x.grad.tolist())
    assert grads[0] == grads[1]


def test_values_saved_on_the_host_come_back_to_their_gpu(recording: Any) -> None:
    x: Any = rg.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
    with rg.autograd.graph.save_on_cpu():
        y = Half.apply(x)
    y.sum().backward()
    assert (str(x.grad.device), x.grad.tolist()) == ("cuda:1", [2.0, 4.0])


class Mesh:
    """What a Function returns that is no tensor."""

    def __init__(self, points: Any) -> None:
        self.points = points


class Meshed(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0, Mesh(x * 3.0), [x.detach(), "name"]

    @staticmethod
    def backward(ctx: Any, grad: Any, *_: Any) -> Any:
        return grad * 2.0


class ReadsMesh(rg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, mesh: Any) -> Any:
        return x + mesh.points

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


def test_what_objects_hold_on_a_gpu_stays_there_until_the_client_asks(recording: Any) -> None:
    for _ in range(2):
        x: Any = rg.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
        seen_on(recording, 1)
        y, mesh, items = Meshed.apply(x)
        y.sum().backward()
        recording._waiter.wait_for_everything()
        assert str(mesh.points.device) == "cuda:1"
        assert mesh.points.cpu().tolist() == [3.0, 6.0]
        assert (items[0].cpu().tolist(), items[1], x.grad.tolist()) == ([1.0, 2.0], "name", [2.0, 2.0])


def test_what_forward_set_on_its_context_is_read_where_the_client_asks(recording: Any) -> None:
    class Sets(Half):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.twice = x * 2.0
            ctx.save_for_backward(x)
            return x * x

    x: Any = rg.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
    y = Sets.apply(x)
    assert y.grad_fn.twice.cpu().tolist() == [2.0, 4.0]
    assert [one.cpu().tolist() for one in y.grad_fn.saved_tensors] == [[1.0, 2.0]]
    seen_on(recording, 1)
    y.sum().backward()
    recording._waiter.wait_for_everything()
    assert seen_on(recording, 1)[-1] == (0, 0, 0), "backward uses what stayed there, not what the client read"
    assert x.grad.tolist() == [2.0, 4.0]


class Layer(rg.autograd.Function):
    resources: ClassVar[dict[str, float]] = {"num_gpus": 0.5}

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        ctx.twice = x * 2.0
        return x @ w

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        return grad @ w.T, x.T @ grad


def test_training_over_two_gpus_leaves_nothing_there_and_moves_the_same_at_each_step(recording: Any) -> None:
    losses: list[list[float]] = []
    for compiled in (False, True):
        rg.manual_seed(0)
        first: Any = rg.randn(8, 8, dtype=rg.float64, device="cuda:0", requires_grad=True)
        second: Any = rg.randn(8, 4, dtype=rg.float64, device="cuda:1", requires_grad=True)
        optimizer = rg.optim.Adam([first, second], lr=0.01)

        def step(x: Any, first: Any = first, second: Any = second, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            hidden = Layer.apply(x.to("cuda:0"), first).tanh()
            out = Layer.apply(hidden.to("cuda:1"), second)
            loss = (out * out).mean().cpu()
            loss.backward()
            optimizer.step()
            return loss

        run = recording.compile(step) if compiled else step
        told: list[tuple[Any, ...]] = []
        losses.append([])
        for number in range(30):
            loss = run(rg.ones(16, 8, dtype=rg.float64))
            if number % 10 == 9:
                losses[-1].append(loss.item())
                recording._waiter.wait_for_everything()
                told.append((*held_on(recording), *[seen_on(recording, worker)[-1] for worker in (0, 1)]))
        assert told[1] == told[2]
        assert losses[-1][-1] < losses[-1][0]
    assert losses[0] == losses[1]


def held_on(session: Any) -> list[int]:
    """Return the bytes that are held on each GPU."""
    found: list[int] = []
    session.on("held", found.append)
    for worker in (0, 1):
        with rg.place(worker=worker):
            Held.apply(rg.ones(1)).tolist()
    session._listener.handlers.clear()
    return found


def test_layouts_and_dtypes_cross_as_they_are(recording: Any) -> None:
    for array in (
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(24, dtype=np.int16).reshape(2, 3, 4).transpose(2, 0, 1),
        np.zeros(3, np.complex64),
    ):
        there = rg.from_numpy(array).to("cuda:0") * 1
        moved = there.to("cuda:1")
        back = moved.cpu()
        assert (str(moved.device), back.numpy().dtype) == ("cuda:1", array.dtype)
        assert back.numpy().tolist() == array.tolist()
        assert back.stride() == rg.from_numpy(array).stride()


def test_parts_of_one_gpu_are_one_device(ray_with_gpus: Any, session: Any) -> None:
    session.close(discard=True)
    with use_stand_in(1), rg.Session("ray", workers=3, gpus=2, worker_options={"num_gpus": 0.5}) as shared:
        assert shared.devices == (rg.device("cuda:0"),)
        workers = executor_of(shared).cluster.workers
        assert [worker.devices for worker in workers] == [("cpu", "cuda:0"), ("cpu", "cuda:0"), ("cpu",)]
        assert free_gpus(ray_with_gpus, 1.0)
        with rg.place(worker=0):
            x: Any = rg.tensor([1.0, 2.0], device="cuda:0", requires_grad=True)
            y = x * 3.0
        with rg.place(worker=1):
            z = (y * y).sum()
        z.backward()
        assert x.grad.tolist() == [18.0, 36.0]
        with pytest.raises(PlanError, match=r"worker 0: cpu, cuda:0, num_cpus 1, num_gpus 0\.5"):
            Two.apply(rg.ones(2)).tolist()
    assert free_gpus(ray_with_gpus, 2.0)


class Dies(rg.autograd.Function):
    devices = ("cuda",)

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
        return x


def test_a_gpu_worker_that_is_killed_in_a_run_is_told_by_name_and_frees_its_gpu(ray_with_gpus: Any) -> None:
    with use_stand_in(1):
        session = rg.Session("ray", workers=2, gpus=1, retries=0).start()
        assert (rg.ones(2, device="cuda") * 2.0).tolist() == [2.0, 2.0]
        started = time.monotonic()
        with pytest.raises(WorkerLost, match=r"worker 0 .* had been given 'Dies' \(\S*test_gpus_on_ray\.py:\d+ in"):
            Dies.apply(rg.ones(1)).tolist()
        assert time.monotonic() - started < 20
        session.close(discard=True)
        with rg.Session("ray", workers=2, gpus=2) as again:
            assert len(again.devices) == 2


def test_more_gpus_than_there_are_is_an_error_at_once(ray_with_gpus: Any) -> None:
    message = r"3 of the 3 workers ask for 3 GPUs together, and the nodes of this Ray have 2: ask for fewer with"
    with use_stand_in(1), pytest.raises(DeviceError, match=message):
        rg.Session("ray", workers=3, gpus=3)
    with pytest.raises(ValueError, match="gpus=3 need as many workers"):
        rg.Session("ray", workers=2, gpus=3)
    assert free_gpus(ray_with_gpus, 2.0)


def test_gpus_that_cannot_be_served_are_an_error_that_names_the_extra(ray_with_gpus: Any) -> None:
    if "cupy" in sys.modules:
        pytest.skip("CuPy is here")
    before = serve(None)  # nothing simulates them
    try:
        with pytest.raises(DeviceError, match=r"worker 0 on node \w+ cannot serve a GPU: device 'cuda' needs CuPy"):
            rg.Session("ray", workers=1, gpus=1)
        assert free_gpus(ray_with_gpus, 2.0)
        with rg.Session("ray", workers=1, worker_options={"num_gpus": 1}) as session:  # for other libraries to use
            assert session.devices == ()
            assert Half.apply(rg.ones(2)).tolist() == [1.0, 1.0]
    finally:
        serve(before)


def test_a_cluster_to_which_gpus_may_come_is_waited_for_until_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, which joins a cluster of two nodes that it did not start."""
    script = tmp_path / "joins.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "RAY_ADDRESS": ""}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=150, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-5:] == [
        "['cpu', 'cuda:0'] ['cpu', 'cuda:1'] ['cpu']",
        "tensor([2., 4.], device='cuda:1')",
        "[2.0, 4.0] tensor([2., 4.], device='cuda:1')",
        "a value (shape (2,)) is on cuda",
        "3 of the 3 workers ask for 3 GPUs together, and the nodes of this Ray have 2",
    ]


SCRIPT = """
import raygrad as rg
from ray.cluster_utils import Cluster
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.backends.serving_backends import ServingBackends, serve
from raygrad.client.session.session import executor_of
from raygrad.workers.executors.ray import actor_processes

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 1, "include_dashboard": False,
                                                        "object_store_memory": 80_000_000})
try:
    cluster.add_node(num_cpus=2, num_gpus=1, object_store_memory=80_000_000)
    with use_stand_in(1):
        with rg.Session(f"ray:{cluster.address}", workers=3, gpus=2) as session:
            found = executor_of(session).cluster.workers
            assert len({worker.host for worker in found[:2]}) == 2
            moved = (rg.ones(2, device="cuda:0") * 2.0).to("cuda:1")
            assert moved.tolist() == [2.0, 2.0]
            print(*[list(worker.devices) for worker in found])
            home = ServingBackends.cuda, serve(None)  # as on a machine without a GPU
            held = rg.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
            (held * held).sum().backward()
            print(held.grad)
        print(held.grad.cpu().tolist(), held.grad)
        try:
            held.grad + 1.0
        except rg.errors.DeviceError as error:
            print(str(error).partition(":1")[0])
        serve(home[0])
        actor_processes.START_DEADLINE = 2.0
        try:
            rg.Session(f"ray:{cluster.address}", workers=3, gpus=3)
        except rg.errors.DeviceError as error:
            print(str(error).partition(":")[0])
finally:
    cluster.shutdown()
"""


class Hidden(rg.autograd.Function):
    """Holds what it saved on its GPU in what cannot be pickled."""

    pure = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        s = (x * 2).sin()
        ctx.by_s = lambda grad: grad * s
        ctx.save_for_backward(x)
        return s * 1.5

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return ctx.by_s(grad) * x


@pytest.mark.filterwarnings("ignore:cuda.[01] ran out of memory:UserWarning")
@pytest.mark.parametrize("apart", [False, True], ids=["one run", "two runs"])
def test_gpus_that_are_full_have_what_is_not_needed_wait_on_disk_or_made_again(session: Any, apart: bool) -> None:
    session.close(discard=True)  # which holds the GPUs
    size = 20_000
    found: list[bytes] = []
    peaks: list[int] = []
    for memory in (None, 11 * 8 * size):
        with use_stand_in(2, memory=memory), rg.Session("ray", workers=2, gpus=2) as session:
            w = rg.tensor(np.linspace(0.0, 1.0, size)).to("cuda:0").requires_grad_()
            y: Any = w
            for number in range(24):
                y = Hidden.apply(y) + (y * w.to(y.device)).cos()
                y = y.to("cuda:1") if number == 12 else y
            loss = y.sum()
            if apart:
                session.run(loss).wait()
            loss.backward()
            gradient: Any = w.grad
            found.append(gradient.cpu().numpy().tobytes())
            del y, loss
            seen: list[Any] = []
            session.on("peak", seen.append)
            for device in ("cuda:0", "cuda:1"):
                Peak.apply(rg.ones(1, device=device)).tolist()
            peaks.append(max(seen))
    assert found[0] == found[1]
    assert peaks[0] > 1.8 * 11 * 8 * size
    assert peaks[1] <= 11 * 8 * size


class Peak(Seen):
    """Emits the most bytes that arrays on its GPU held."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        rg.emit("peak", rg.cuda.max_memory_allocated())
        return x * 1.0
