"""What nodes have room for, and what a message says of them; Ray's own tables are read in `test_actor_processes`."""

from __future__ import annotations

import re
from typing import Any

import pytest

from raygrad.workers.executors.ray.cluster_resources import (
    Holder,
    NodeResources,
    amounts_of,
    describe_nodes,
    missing_resources,
)

GiB = 2.0**30
CPU_2 = {"num_cpus": 2}
GPU = {"num_cpus": 1, "num_gpus": 1}


@pytest.mark.parametrize(
    ("options", "nodes", "missing"),
    [
        ([CPU_2] * 3, [{"CPU": 4.0}, {"CPU": 2.0}], ""),
        ([CPU_2] * 3, [{"CPU": 3.0}, {"CPU": 3.0}], "3 of the workers ask for CPU 2 each, and there is room for 2"),
        ([{"num_cpus": 0.1}] * 10, [{"CPU": 1.0}], ""),
        ([{"num_cpus": 0}] * 99, [{}], ""),
        ([GPU, GPU], [{"CPU": 8.0, "GPU": 1.0}, {"CPU": 8.0}], "2 of the workers ask for CPU 1, GPU 1 each, .* for 1"),
        ([GPU, CPU_2], [{"CPU": 2.0, "GPU": 1.0}], "2 workers ask for CPU 3 together, and there is 2"),
        ([GPU, CPU_2], [{"CPU": 3.0, "GPU": 1.0}], ""),
        ([{"memory": 2 * GiB}], [{"memory": GiB}], "1 of the workers ask for memory 2 GiB each"),
        ([{"resources": {"disk": 1}}], [{"CPU": 1.0}], "ask for disk 1 each, and there is room for 0"),
        ([CPU_2], [], "room for 0"),
        ([CPU_2], [{"CPU": -1.0}], "room for 0"),
    ],
)
def test_room_is_counted_per_node_and_in_all(options: Any, nodes: Any, missing: str):
    found = missing_resources(amounts_of(options), nodes)
    assert re.search(missing, found) if missing else found == ""


def test_nodes_are_described_by_what_is_asked_for_and_who_holds_it():
    one = NodeResources("node a", {"CPU": 4.0, "memory": 8 * GiB, "disk": 1.0})
    one.holders += [Holder("an actor A", {"CPU": 3.0}), Holder("an actor B", {"disk": 1.0})]
    two = NodeResources("node b", {"CPU": 1.0, "memory": GiB})
    asked = amounts_of([{"num_cpus": 2, "memory": GiB}])
    assert describe_nodes([one, two], asked).splitlines() == [
        "",
        "  node a: CPU 1 of 4 free, memory 8 GiB of 8 GiB free; an actor A has CPU 3",
        "  node b: CPU 1 of 1 free, memory 1 GiB of 1 GiB free",
    ]


def test_a_description_names_some_of_many():
    node = NodeResources("node a", {"CPU": 99.0}, [Holder(f"an actor {index}", {"CPU": 1.0}) for index in range(9)])
    text = describe_nodes([node] * 10, amounts_of([CPU_2]))
    assert text.count("node a: CPU 90 of 99 free") == 8
    assert text.count("an actor 5 has CPU 1; 3 others hold some, too") == 8
    assert text.endswith("\n  and 2 more nodes")
