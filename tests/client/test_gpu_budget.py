"""The memory of a GPU as an input: plans keep to it, and what they do gives the same bits."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.errors import OutOfDeviceMemory, PlanError

SIZE = 20_000
ARRAY = 8 * SIZE
SCRATCH = 3 * ARRAY
"""What a node takes of a GPU while it runs, beside what it reads and makes."""


class Grow(rg.autograd.Function):
    pure = True
    devices = ("cpu", "cuda")

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return (x * w).sin()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        outer = (x * w).cos() * grad
        return outer * w, outer * x


class Hoard(rg.autograd.Function):
    """Saves twice what it reads on its GPU, and as much as that on the host."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        sine, cosine = x.sin(), x.cos()
        ctx.save_for_backward(sine, cosine)
        ctx.table = np.full(SIZE, 0.5)
        return sine * cosine

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        sine, cosine = ctx.saved_tensors
        return (cosine * cosine - sine * sine) * grad * float(ctx.table[0])


class Nested(rg.autograd.Function):
    """Saves what it has on its GPU in a list, too."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x.cos())
        ctx.more = [x * 2.0, {"a": x * 3.0}]
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (cosine,) = ctx.saved_tensors
        return cosine * grad + 0.0 * ctx.more[0] + 0.0 * ctx.more[1]["a"]


class Trained(NamedTuple):
    bits: bytes
    nodes: list[str]
    peaks: Any
    peak: int
    """Of the device, in bytes."""


def trained(*, functions: bool = False, has: int | None = None, **options: Any) -> Trained:
    """Return what two steps on a GPU that `has` so many bytes came to."""
    generator = np.random.default_rng(0)
    with use_stand_in(1, memory=has) as device, rg.Session(workers=1, gpus=1, **options) as session:
        w = rg.tensor(generator.standard_normal(SIZE)).cuda().requires_grad_()

        def step() -> Any:
            w.grad = None
            y: Any = rg.tensor(generator.standard_normal(SIZE)).cuda()
            for number in range(12):
                y = Grow.apply(y, w) if functions and number % 2 else (y * w).sin() + y
            y.sum().backward()
            return session.run().wait()

        step()
        run = step()
        gradient: Any = w.grad
        bits = gradient.cpu().numpy().tobytes()
        report = run.report()
        gc.collect()
        return Trained(bits, list(report.graph.names), report.run.workers[0].peaks, device.memory(0).peak)


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
@pytest.mark.parametrize("functions", [False, True], ids=["ops", "functions"])
def test_a_step_that_needs_more_than_its_gpu_has_runs_in_what_it_has(functions: bool, strict: bool) -> None:
    free = trained(functions=functions, strict=strict)
    limit = 12 * ARRAY
    has = limit + SCRATCH
    assert free.peak > 1.4 * has
    with pytest.warns(UserWarning, match=r"cuda:0 ran out of memory in .*Session\(gpu_memory=...\)"):
        full = trained(functions=functions, strict=strict, has=has)
    assert full.bits == free.bits, "what is not needed has given way, and was brought back"
    assert full.peak <= has
    kept = trained(functions=functions, strict=strict, gpu_memory=f"{limit}B per GPU", has=has)
    assert kept.bits == free.bits
    assert len(kept.nodes) > len(free.nodes)
    ((device, predicted, measured),) = kept.peaks
    assert device == "cuda:0"
    assert 0.5 * limit < measured <= predicted <= limit


def test_the_host_and_the_gpu_are_limited_each_by_itself() -> None:
    free = trained()
    both = trained(gpu_memory=12 * ARRAY, memory=6 * ARRAY)
    assert both.bits == free.bits
    assert [device for device, *_ in both.peaks] == ["cuda:0", "cpu"]
    assert all(measured <= predicted for _, predicted, measured in both.peaks)
    assert trained(memory=6 * ARRAY).nodes == free.nodes, "what is on the GPU takes nothing of the host"


def test_what_goes_to_disk_from_a_gpu_is_listed_as_a_transfer() -> None:
    with use_stand_in(1), rg.Session(workers=1, gpus=1, gpu_memory=10 * ARRAY) as session:
        w = rg.tensor(np.linspace(0.1, 0.9, SIZE)).cuda().requires_grad_()
        with session.deferred():
            y: Any = w
            for _ in range(12):
                y = Grow.apply(y, w).exp()
            y.sum().backward()
            told = session.explain()
        moved = [(one.source, one.target) for one in told.plan.transfers]
        spilled = [name for name in told.graph.names if name in ("spill", "load")]
        assert len(spilled) > 0
        assert moved.count(("cuda:0", "cpu")) == spilled.count("spill")


def test_what_fits_in_no_way_is_refused_with_what_would_do() -> None:
    with pytest.raises(PlanError, match=r"has gpu_memory=480000 and needs gpu_memory=(\d+), most of all") as caught:
        trained(gpu_memory=3 * ARRAY)
    enough = int(str(caught.value).split("needs gpu_memory=")[1].split(",")[0])
    assert trained(gpu_memory=enough, has=enough + SCRATCH).bits == trained().bits


def hoarded(function: Any = Hoard, **options: Any) -> tuple[bytes, dict[str, tuple[int, int]], list[Any]]:
    """Return a gradient, per memory what was predicted and measured at most, and what went between host and GPU."""
    with use_stand_in(1), rg.Session(workers=1, gpus=1, **options) as session:
        w = rg.tensor(np.linspace(0.1, 0.9, SIZE)).cuda().requires_grad_()

        def step() -> None:
            w.grad = None
            y: Any = w
            for _ in range(10):
                y = function.apply(y)
            y.sum().backward()

        step()
        session.run().wait()
        with session.deferred():
            step()
            moved = list(session.explain().plan.transfers)
            worker = session.run().wait().report().run.workers[0]
        gradient: Any = w.grad
        peaks = {device: (predicted, measured) for device, predicted, measured in worker.peaks}
        return gradient.cpu().numpy().tobytes(), peaks, moved


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_what_functions_save_is_counted_in_the_memory_where_it_is(strict: bool) -> None:
    free, *_ = hoarded(strict=strict)
    bits, peaks, moved = hoarded(strict=strict, gpu_memory=40 * ARRAY, memory=12 * ARRAY)
    assert bits == free
    assert moved == []
    predicted, measured = peaks["cuda:0"]
    assert 20 * ARRAY < measured <= predicted < 26 * ARRAY
    predicted, measured = peaks["cpu"]
    assert 10 * ARRAY <= measured <= predicted < 11 * ARRAY


@pytest.mark.parametrize(
    "limits",
    [{"gpu_memory": 10 * ARRAY}, {"memory": 5 * ARRAY}, {"gpu_memory": 12 * ARRAY, "memory": 5 * ARRAY}],
    ids=["gpu", "host", "both"],
)
def test_what_functions_save_on_a_gpu_waits_on_disk_with_what_they_save_beside_it(limits: dict[str, int]) -> None:
    free, *_ = hoarded()
    bits, peaks, moved = hoarded(**limits)
    assert bits == free
    for memory, (predicted, measured) in peaks.items():
        assert measured <= predicted <= limits["memory" if memory == "cpu" else "gpu_memory"]
    spilled = [one for one in moved if (one.source, one.target) == ("cuda:0", "cpu")]
    loaded = [one for one in moved if (one.source, one.target) == ("cpu", "cuda:0")]
    assert len(spilled) == len(loaded) > 0
    assert 2 * ARRAY in {one.bytes for one in spilled}, "what a context holds there"


@pytest.mark.parametrize(
    ("gpus", "said", "message"),
    [
        (0, "1GB", "worker 0 serves none: ask for workers that do"),
        (1, {1: "1GB"}, "worker 1 serves none"),
        (1, [None, 5], "worker 1 serves none"),
        (1, "much", "gpu_memory must be a positive number of bytes, a text"),
        (1, [1], "gpu_memory must be one amount, or 2 of them"),
    ],
)
def test_a_limit_that_cannot_hold_is_refused(gpus: int, said: Any, message: str) -> None:
    with use_stand_in(1), pytest.raises(ValueError, match=message):
        rg.Session(workers=2, gpus=gpus, gpu_memory=said)


def test_one_amount_is_for_those_that_serve_a_gpu() -> None:
    with use_stand_in(1), rg.Session(workers=2, gpus=1, gpu_memory="1MiB per GPU") as session:
        workers = cast("Any", session._driver).planner.cluster.workers
        assert [worker.gpu_memory for worker in workers] == [2**20, None]


@pytest.mark.filterwarnings("ignore:cuda.0 ran out of memory:UserWarning")
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_the_least_that_does_without_a_limit_is_what_one_node_needs(strict: bool) -> None:
    free = trained(strict=strict)
    assert trained(strict=strict, has=6 * ARRAY).bits == free.bits
    with pytest.raises(OutOfDeviceMemory, match=r"cuda:0 is out of memory in .*free tensors, work in smaller parts"):
        trained(strict=strict, has=2 * ARRAY)


@pytest.mark.filterwarnings("ignore:cuda.0 ran out of memory:UserWarning")
def test_what_earlier_runs_left_on_a_gpu_gives_way_and_comes_back() -> None:
    with use_stand_in(1, memory=4 * ARRAY) as device, rg.Session(workers=1, gpus=1, strict=True) as session:
        held = []
        for number in range(12):
            held.append(rg.tensor(np.linspace(0.0, number, SIZE)).cuda().exp())
            session.run().wait()
        total: Any = held[0]
        for one in held[1:]:
            total = total + one
        expected: Any = np.exp(np.linspace(0.0, 0.0, SIZE))
        for number in range(1, 12):
            expected = expected + np.exp(np.linspace(0.0, number, SIZE))
        np.testing.assert_array_equal(total.cpu().numpy(), expected)
        np.testing.assert_array_equal(held[3].cpu().numpy(), np.exp(np.linspace(0.0, 3, SIZE)))
        assert device.memory(0).peak <= 4 * ARRAY
        held.clear()  # else the end brings all of them to this process, and there is no room for that
        one = total = None


@pytest.mark.filterwarnings("ignore:cuda.0 ran out of memory:UserWarning")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_strict_session_has_room_for_what_is_read_as_far_as_workers_hold_it_too(workers: int) -> None:
    with use_stand_in(1, memory=6 * ARRAY) as device:
        with rg.Session(workers=workers, gpus=1, strict=True) as session:
            held = [rg.tensor(np.linspace(0.1, 0.9, SIZE)).cuda()]
            for _ in range(5):
                held.append(held[-1].sin())
            session.run().wait()
            there = [one.read() for one in held]
            assert len(there) == 6
        expected = np.linspace(0.1, 0.9, SIZE)
        for one in held:
            np.testing.assert_array_equal(one.cpu().numpy(), expected)
            expected = np.sin(expected)
        assert device.memory(0).peak <= 6 * ARRAY


@pytest.mark.parametrize("hooks", [False, True], ids=["saved", "hooked"])
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_what_comes_back_to_a_gpu_takes_nothing_of_the_host(strict: bool, hooks: bool) -> None:
    def packing() -> Any:
        hooked = rg.autograd.graph.saved_tensors_hooks(lambda one: (one.device, one + 0.0), lambda packed: packed[1])
        return hooked if hooks else nullcontext()

    with packing():
        free, *_ = hoarded(Nested, strict=strict)
        bits, peaks, moved = hoarded(Nested, strict=strict, gpu_memory=10 * ARRAY, memory=30 * ARRAY)
    assert bits == free
    assert len(moved) > 0
    assert peaks["cpu"][1] <= peaks["cpu"][0] < ARRAY
    assert peaks["cuda:0"][1] <= peaks["cuda:0"][0] <= 10 * ARRAY
