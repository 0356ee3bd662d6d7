"""Workers in a placement group of Ray's: each in its bundle, or an error before anything is waited for."""

from __future__ import annotations

import importlib.util
from collections.abc import Generator
from typing import Any

import pytest

import raygrad as rg
from raygrad.workers.executors.ray.placement_groups import check_placement, requested_resources

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs raygrad[ray]")
pytestmark = [pytest.mark.ray, needs_ray]


class Where(rg.autograd.Function):
    """Tells the placement group in which it runs."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        import ray

        return x * 2.0, ray.get_runtime_context().get_placement_group_id()

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        return grad


@pytest.fixture
def group(ray_started: None) -> Generator[Any]:
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    made = placement_group([{"CPU": 1}, {"CPU": 0.5, "memory": 10_000_000}])
    ray.get(made.ready())
    yield made
    remove_placement_group(made)


def test_each_worker_runs_in_its_bundle(group: Any) -> None:
    found: list[Any] = []
    with rg.Session("ray", workers=2, placement_group=group, worker_options={"num_cpus": 0.5}):
        for worker in range(2):
            with rg.place(worker=worker):
                y, place = Where.apply(rg.ones(2))
            assert y.tolist() == [2.0, 2.0]
            found.append(place)
    assert found == [group.id.hex()] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([{"num_cpus": 0.5}] * 3, "there are 3 workers, and the group has 2: ask for fewer"),
        ([{"num_cpus": 1}] * 2, r"worker 1 asks for CPU 1, and bundle 1 of the group has \{.*'CPU': 0\.5.*\}: ask"),
        ([{"num_cpus": 1, "num_gpus": 0.5}], r"worker 0 asks for GPU 0\.5, and bundle 0 of the group has \{'CPU': 1"),
        ([{"resources": {"disk": 2}}], "worker 0 asks for disk 2"),
        ([{}, {"memory": 2e7}], r"worker 1 asks for memory 2e\+07"),
    ],
)
def test_what_would_be_waited_for_in_vain_is_said_at_once(group: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_placement(group, options)


def test_what_fits_is_taken(group: Any) -> None:
    check_placement(group, [{"num_cpus": 1, "num_gpus": 0}, {"num_cpus": 0.5, "memory": 1e7, "resources": None}])


def test_what_is_no_group_and_one_that_is_gone_are_refused(ray_started: None) -> None:
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    with pytest.raises(TypeError, match=r"takes a placement group of Ray's .*, got 'a' \(str\)"):
        check_placement("a", [{}])
    made = placement_group([{"CPU": 1}])
    ray.get(made.ready())
    remove_placement_group(made)
    with pytest.raises(ValueError, match="the group was removed"):
        check_placement(made, [{}])


def test_what_is_asked_for_goes_by_the_names_of_bundles() -> None:
    assert requested_resources({"num_cpus": 2, "num_gpus": 0, "resources": {"disk": 1}, "name": "a"}) == {
        "CPU": 2.0,
        "disk": 1.0,
    }
