from raygrad.scheduler.costs import Costs
from raygrad.scheduler.plan import Cluster
from raygrad.scheduler.planner import make_plan

COSTS = Costs(op_bandwidth=1e30)


def predicted(build, workers=2, residency=None):
    graph = build.graph()
    residency = (-1,) * len(graph.externals) if residency is None else residency
    return make_plan(graph, residency, COSTS, Cluster.of(workers), 0, b"").plan.predicted_seconds


def test_segments_of_one_worker_follow_each_other_and_others_wait_for_the_hop(builder):
    build = builder(size=1000)
    a = build.op("sin", 0, pin=0)
    build.op("sin", a, pin=1)
    once = COSTS.call_seconds + COSTS.op_seconds
    assert abs(predicted(build) - (2 * once + COSTS.transfer_seconds(8000))) < 1e-9


def test_values_that_travel_in_one_object_arrive_together(builder):
    build = builder(size=1_000_000)
    a, b = build.op("sin", 0, pin=0), build.op("cos", 0, pin=0)
    build.op("add", a, b, pin=1)
    least = 2 * COSTS.call_seconds + 3 * COSTS.op_seconds
    assert abs(predicted(build) - (least + COSTS.transfer_seconds(16_000_000))) < 1e-9


def test_an_external_on_another_worker_is_waited_for(builder):
    build = builder(size=1_000_000)
    build.op("sin", 0, pin=0)
    once = COSTS.call_seconds + COSTS.op_seconds
    assert abs(predicted(build, residency=(1,)) - (once + COSTS.transfer_seconds(8_000_000))) < 1e-9
    assert abs(predicted(build, residency=(0,)) - once) < 1e-9


def test_nothing_takes_no_time(builder):
    assert predicted(builder()) == 0.0
