"""Which GPUs workers ask for, what a session calls them, and which a process serves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import raygrad as rg
from raygrad.autograd.devices.serving import backend_for_kind, backend_if_installed, disable_cuda, serve
from raygrad.autograd.devices.simulated.simulated_device import StandIn, use_stand_in
from raygrad.errors import DeviceError
from raygrad.workers.process.gpu_assignment import MOST_GPUS, logical_gpus, number_gpus, resource_requests, serve_gpus


@pytest.fixture(autouse=True)
def process() -> Iterator[None]:
    """Let the process serve afterwards what it served before."""
    before = serve(None)
    yield
    disable_cuda("")
    serve(before)


def test_the_first_workers_ask_for_a_gpu_or_for_what_the_options_say():
    assert [one.get("num_gpus") for one in resource_requests(3, 2, {"num_cpus": 1})] == [1, 1, 0]
    assert [one["num_gpus"] for one in resource_requests(3, 2, {"num_gpus": 0.5})] == [0.5, 0.5, 0]
    assert resource_requests(2, None, {"num_gpus": 0.5}) == [{"num_gpus": 0.5}] * 2
    assert [one["num_gpus"] for one in resource_requests(2, 0, {"num_gpus": 1})] == [0, 0]


def test_a_ray_is_told_of_simulated_gpus_only(monkeypatch: pytest.MonkeyPatch):
    asked = [{"num_gpus": 0.5}, {"num_gpus": 1}, {"num_gpus": None}, {}]
    monkeypatch.delenv("RAYGRAD_STAND_IN", raising=False)
    assert logical_gpus(asked) is None
    with use_stand_in(1):
        assert (logical_gpus(asked), logical_gpus([{}])) == (2, 0)


def test_gpus_are_numbered_in_the_order_of_workers_and_shared_ones_once():
    given = [("b", ("1",)), ("a", ("0",)), ("a", ()), ("a", ("1", "0")), ("b", ("1",))]
    assert number_gpus(given) == [(0,), (1,), (), (2, 1), (0,)]
    with pytest.raises(DeviceError, match=f"given {MOST_GPUS + 1} GPUs; it can tell {MOST_GPUS} apart"):
        number_gpus([("a", tuple(map(str, range(MOST_GPUS + 1))))])


def test_a_process_serves_what_it_was_given_and_nothing_else(monkeypatch: pytest.MonkeyPatch):
    assert serve_gpus("worker 1", (4,), True) == ""
    assert list(backend_for_kind("cuda").numbers()) == [4]
    assert str(rg.ones(1, device="cuda").device) == "cuda:4"
    monkeypatch.setenv("RAYGRAD_STAND_IN", "8")  # a worker without a GPU is not to take one of these
    assert serve_gpus("worker 2", (), False) == ""
    assert backend_if_installed() is None
    with pytest.raises(DeviceError, match="'cuda' is not available: worker 2 of this session serves no GPU; name"):
        rg.ones(1, device="cuda")
    assert serve_gpus("worker 1", (4, 2), False) == ""  # the variable asks for simulated ones, too
    assert list(backend_for_kind("cuda").numbers()) == [4, 2]
    assert serve_gpus("worker 1", (4,), True, memory=1000) == ""
    assert rg.cuda.mem_get_info(4) == (1000, 1000)


def test_it_says_why_it_cannot_serve_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RAYGRAD_STAND_IN", raising=False)
    monkeypatch.setattr("raygrad.workers.process.gpu_assignment.backend_for_kind", lambda kind: StandIn(8))
    missing = serve_gpus("worker 1", (3,), False)
    assert missing.startswith("it was given 1 of the GPUs of its node, and sees 8")
    with pytest.raises(DeviceError, match="worker 1 of this session serves none: it was given 1 of the GPUs"):
        rg.ones(1, device="cuda")
