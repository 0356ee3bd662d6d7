import pytest

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, PlanRow, WorkerSpec
from raygrad.scheduler.planning.planner import make_plan


def test_a_cluster_of_n_workers_has_n_names_and_is_hashable():
    cluster = Cluster.of(3)
    assert len({worker.name for worker in cluster.workers}) == 3
    assert hash(cluster) == hash(Cluster.of(3))


def test_a_device_offers_its_kind():
    assert WorkerSpec("w", ("cpu", "cuda:0", "cuda:1")).kinds == {"cpu", "cuda"}


def test_memory_is_one_figure_for_all_workers_or_one_for_each():
    cluster = Cluster.of(2)
    assert [one.memory for one in cluster.limited(5).workers] == [5, 5]
    assert [one.memory for one in cluster.limited([5, None]).workers] == [5, None]
    assert cluster.limited(None) == cluster
    for memory in (0, [5], [5, -1], [0, 0]):
        with pytest.raises(ValueError, match="positive number of bytes, or 2 of them"):
            cluster.limited(memory)


def test_a_plan_is_shown_as_one_row_per_segment(builder):
    build = builder()
    context, y = build.function("f", 0, pin=0)
    z = build.op("sin", y, pin=1)
    g = build.op_vjp("sin", [y], z, pin=1)
    h = build.hook("h", g)
    build.function_vjp("f", context, build.sum(h, h), 0)
    plan = make_plan(build.graph(), (-1,), Costs(), Cluster.of(2), 0, b"").plan
    rows = plan.rows()
    assert [type(row) for row in rows] == [PlanRow] * 3
    assert [row.worker for row in rows] == ["worker 0", "worker 1", "worker 0"]
    assert [row.segment for row in rows] == [0, 1, 2]
    assert sum(row.forward_nodes for row in rows) == 2
    assert sum(row.vjp_nodes for row in rows) == 3  # a sum of gradients belongs to backward
    assert sum(row.hook_nodes for row in rows) == 1
    assert rows[0].bytes_out == 32  # its context stays on its worker
    assert all(row.predicted_ms > 0 for row in rows)
    assert sum(row.bytes_in for row in rows) == sum(row.bytes_out for row in rows)
    assert plan.crossing_bytes == 64


def test_a_worker_offers_amounts_devices_and_their_kinds():
    worker = WorkerSpec("a", ("cpu", "cuda:1"), resources=(("num_cpus", 2.0),))
    assert worker.offers(())
    assert worker.offers((("num_cpus", 2.0), ("device cuda:1", 1.0)))
    assert worker.offers((("device cuda", 1.0), ("memory", 0.0)))
    assert not worker.offers((("num_cpus", 3.0),))
    assert not worker.offers((("memory", 1.0),))
    assert not worker.offers((("device cuda:0", 1.0),))
    assert worker.described() == "a: cpu, cuda:1, num_cpus 2"
