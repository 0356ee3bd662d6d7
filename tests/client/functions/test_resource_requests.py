"""What users ask of workers, as demands of a graph. That workers are chosen by it is in `test_place`."""

from typing import Any

import pytest

import raygrad as rg
from raygrad.client.functions.resource_requests import ResourceRequest, demands_of, requested_by


def function(resources: Any) -> type[Any]:
    return type("Named", (rg.autograd.Function,), {"resources": resources})


def test_amounts_are_sorted_by_name() -> None:
    assert requested_by(function({"num_cpus": 2, "memory": 1e9})) == (("memory", 1e9), ("num_cpus", 2.0))
    assert requested_by(function({})) == requested_by(rg.autograd.Function) == ()


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf")])
def test_an_amount_that_nobody_can_have_is_refused(amount: float) -> None:
    with pytest.raises(ValueError, match="amount of 'memory' must be 0 or more"):
        requested_by(function({"memory": amount}))


@pytest.mark.parametrize("name", ["", "device cuda"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a resource"):
        requested_by(function({name: 1}))


def test_true_is_no_amount_and_a_list_no_mapping() -> None:
    for resources in ({"num_cpus": True}, {1: 1.0}, ["num_cpus"]):
        with pytest.raises(TypeError, match=r"Named\.resources must map names to amounts"):
            requested_by(function(resources))


def test_a_graph_without_demands_has_none() -> None:
    assert demands_of([], {"@f": ResourceRequest("F", (("num_cpus", 1.0),))}) == ()
