import pytest

from raygrad.errors import InvariantViolation
from raygrad.scheduler.machine.commands import DropExport, FailReason, FailRun, FinishRun, RunSegment
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan
from raygrad.scheduler.simulation.node_durations import NodeDurations
from raygrad.scheduler.simulation.scenario import VirtualSubmission
from raygrad.scheduler.simulation.simulate import simulate
from raygrad.scheduler.simulation.virtual_event_loop import VirtualDriver


class Broken(Machine):
    """A machine that says something more, or something less, than it should."""

    def __init__(self, more=(), less=None):
        super().__init__()
        self.more = list(more)
        self.less = less

    def handle(self, *events):
        commands = [one for one in super().handle(*events) if self.less is None or not isinstance(one, self.less)]
        more, self.more = self.more, []
        return [*commands, *more]


def world(builder, machine):
    build = builder()
    a = build.op("sin", 0, pin=0)
    build.keep_in_store(build.op("cos", a, pin=1))
    planned = make_plan(build.graph(), (-1,), Costs(), Cluster.of(2), 0, b"")
    return VirtualDriver(
        machine=machine,
        submissions=[VirtualSubmission(planned=planned)],
        cluster=Cluster.of(2),
        costs=Costs(),
        speed=[1.0, 1.0],
        durations=[NodeDurations(planned, Costs(), [1.0, 1.0])],
        withdraw_seconds=None,
        links={},
        dispatch_seconds=0.0,
        in_order=True,
        watch=None,
    )


def test_the_world_of_a_sound_machine_comes_to_its_end(builder):
    made = world(builder, Broken()).run()
    assert [one.status for one in made.segments] == ["done", "done"]


@pytest.mark.parametrize(
    ("more", "less", "what"),
    [
        ([RunSegment(run=0, segment=0, attempt=0, worker=0)], None, "commanded twice"),
        ([DropExport(run=0, segment=0, export=0)], None, "still waited for"),
        ([DropExport(run=0, segment=1, export=0)] * 2, None, "was not there"),
        ([FailRun(run=0, reason=FailReason.ABANDONED)] * 2, None, "failed twice"),
        ((), RunSegment, "stands still"),
        ((), FinishRun, "stands still"),
        ((), DropExport, "when all is over"),
    ],
)
def test_what_a_machine_must_not_do_is_found(builder, more, less, what):
    with pytest.raises(InvariantViolation, match=what):
        world(builder, Broken(more, less)).run()


def test_bytes_saved_are_counted_from_the_segment_that_makes_them_to_the_end_of_its_last_reader(builder):
    build = builder()
    context, y = build.function("f", 0, pin=0)
    z = build.op("exp", y, pin=1)
    build.function_vjp("f", context, z, 0)
    costs = Costs(context_bytes=1000)
    planned = make_plan(build.graph(), (-1,), costs, Cluster.of(2), 0, b"")
    made = simulate(planned, Cluster.of(2), costs)
    first, _, last = made.segments
    assert made.saved[0] == ((0.0, 0), (first.finish, 1000), (last.finish, 0))
    assert made.peak_saved == (1000, 0)
    assert made.peak_stored == (1032, 32)  # the context pinned, the output stored
