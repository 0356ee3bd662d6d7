"""What elastic sessions take and refuse, before there is any Ray."""

from __future__ import annotations

from typing import Any

import pytest

import raygrad as rg
from raygrad.client.session.elastic import admission, check_addition, checked_workers, worker_index
from raygrad.client.session.memory_limits import Memory
from raygrad.errors import ExecutionError, NumericsError, SessionError
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.planning.planner import Planner
from raygrad.workers.executors.elastic_workers import Scale


def test_a_number_of_workers_or_the_least_and_the_most():
    assert checked_workers(None) == (None, None)
    assert checked_workers(3) == (3, None)
    assert checked_workers((2, 16)) == (2, Scale(2, 16))


@pytest.mark.parametrize(
    ("workers", "error", "text"),
    [
        ((3, 2), ValueError, r"least before the most, as in workers=\(2, 3\)"),
        ((1, 2, 3), ValueError, "the least and the most"),
        ((0, 2), ValueError, "from 1 to"),
        ((1, "2"), TypeError, "whole number"),
    ],
)
def test_what_are_no_bounds_is_refused(workers: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        rg.Session("ray", workers=workers)


@pytest.mark.parametrize(
    ("address", "options", "text"),
    [
        ("local", {}, "for sessions on Ray"),
        ("ws://127.0.0.1:1", {}, "workers=2"),
        ("ray", {"gpus": 1}, "serve no GPUs"),
        ("ray", {"worker_options": {"num_gpus": 1}}, "serve no GPUs"),
        ("ray", {"placement_group": object()}, "placement group"),
        ("ray", {"memory": ["1GiB", "2GiB"]}, "one limit for every worker"),
    ],
)
def test_what_does_not_suit_workers_that_come_and_go_is_refused(address: str, options: Any, text: str):
    with pytest.raises(ValueError, match=text):
        rg.Session(address, workers=(1, 2), **options)


def test_workers_of_this_process_neither_come_nor_go():
    with rg.Session(workers=2) as session:
        assert session.worker_names == ("worker 0", "worker 1")
        with pytest.raises(ExecutionError, match=r"Session\(workers=...\)"):
            session.add_workers()
        with pytest.raises(ExecutionError, match=r"Session\(workers=...\)"):
            session.remove_worker(1)
        assert session.workers == 2
        assert (rg.ones(2) * 2.0).tolist() == [2.0, 2.0]


def test_a_worker_is_named_by_index_or_name():
    workers = Cluster.of(2).workers
    assert worker_index("here", workers, "worker 1") == worker_index("here", workers, 1) == 1
    with pytest.raises(ValueError, match="there is no 'worker 7'"):
        worker_index("here", workers, "worker 7")
    with pytest.raises(ValueError, match="from 0 to 1"):
        worker_index("here", workers, 2)


def test_limits_for_each_worker_leave_none_for_one_that_joins():
    check_addition("1GiB", None)
    limits: list[Memory] = [["1GiB"], {0: "1GiB"}]
    for memory in limits:
        with pytest.raises(SessionError, match="one for all"):
            check_addition(memory, None)


def test_a_worker_that_joins_gets_the_limit_of_all_and_is_refused_if_it_may_give_other_bits():
    here = WorkerSpec("worker 0", numerics=(("cpu", "one kind"),))
    admit = admission(Planner(Cluster((here,))), "1kB", deterministic=True)
    assert admit(WorkerSpec("worker 1", numerics=here.numerics)).memory == 1000
    with pytest.raises(NumericsError, match="worker 1"):
        admit(WorkerSpec("worker 1", numerics=(("cpu", "another"),)))
