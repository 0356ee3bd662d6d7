"""Predicted bytes of what programs leave on their workers."""

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.output_sizes import export_bytes, pin_bytes
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan


def test_the_bytes_of_objects_and_pins_are_those_of_their_specs(builder):
    build = builder()
    a = build.op("sin", 0, pin=0)
    b = build.op("cos", 0, pin=0)
    build.op("sin", a, pin=1)
    build.keep_on_worker(b)
    planned = make_plan(build.graph(), (-1,), Costs(), Cluster.of(2), 0, b"")
    assert export_bytes(planned.programs[0], Costs()) == (32,)
    assert pin_bytes(planned.programs[0], Costs()) == [(b, 32)]
    assert pin_bytes(planned.programs[1], Costs()) == []
