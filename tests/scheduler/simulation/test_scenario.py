from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan
from raygrad.scheduler.simulation.scenario import (
    SimulatedRun,
    VirtualSubmission,
    VirtualTransfer,
    as_submissions,
)


def test_one_submission_and_a_plan_are_submissions_too(builder):
    build = builder(externals=2, size=10)
    build.op("add", 0, 1)
    planned = make_plan(build.graph(), (-1, 0), Costs(), Cluster.of(1), 0, b"")
    made = VirtualSubmission(planned=planned, at=2.0, residency=(-1, 0), external_bytes=(80, 80))
    assert as_submissions(planned) == (VirtualSubmission(planned=planned),)
    assert as_submissions(made) == (made,)
    assert as_submissions([made, made]) == (made, made)


def test_peaks_and_shares_are_those_of_the_series():
    made = SimulatedRun(
        makespan=4.0,
        busy=(4.0, 2.0),
        segments=(),
        transfers=(
            VirtualTransfer(0.0, 1.0, 0, 1, 30, 0, "value 1"),
            VirtualTransfer(1.0, 2.0, 1, 0, 12, 0, "value 2"),
        ),
        waits=(),
        saved=(((0.0, 0), (1.0, 8), (2.0, 0)), ((0.0, 0),)),
        stored=(((0.0, 0), (1.0, 9), (2.0, 4)), ((0.0, 0),)),
        failures=(),
        finished=(),
    )
    assert made.peak_saved == (8, 0)
    assert made.peak_stored == (9, 0)
    assert made.utilisation == 0.75
    assert made.transferred_bytes == 42
