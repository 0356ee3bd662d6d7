"""Explanation of what a session would submit now, without submitting it.

The implementation of `Session.explain`. Recorded nodes stay recorded, and no run number is used up; the plan stays in
the plan cache, so that a submission of the same graph finds it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import PlanError
from raygrad.report.explanation import Explanation, OtherMachines, SignatureWait
from raygrad.report.shown import label_graph
from raygrad.scheduler.explain.device_transfers import DeviceTransfer
from raygrad.scheduler.explain.explanation import explain_plan
from raygrad.scheduler.simulation.simulate import what_if

from ..options import MOST_WORKERS, all_tensors, whole
from ..recording.records import Constant, NodeRecord
from ..submission.node_names import call_nodes
from ..submission.program_order import looking_in_program_order
from ..submission.submission import build, needed_records

if TYPE_CHECKING:
    from raygrad.proto.ir.graph import Graph
    from raygrad.scheduler.model.costs import Costs
    from raygrad.scheduler.model.plan import Cluster
    from raygrad.workers.executors.calls import GraphSubmission

    from ..recording.source_locations import Site
    from .session import Session

_looks = itertools.count(-2, -1)
"""Marks what one explanation needs; no run has such a number."""


def explain(
    session: Session, tensors: Sequence[Tensor], workers: int | None = None, gpus: int | None = None
) -> Explanation:
    """Return the explanation of what would be submitted now for `tensors`, or of all that would be; with `workers` or
    `gpus`, also of what that many would bring.

    Raises:
        TypeError: one of them is no tensor, or a number of workers or GPUs is none.
        ValueError: there cannot be so many of them.
        SessionError: the session is closed.
        PlanError: no worker, here or there, can run one of the nodes; or there are more GPUs than workers.
    """
    all_tensors("session.explain", tensors)
    workers = None if workers is None else whole("session.explain(workers=...)", workers, 1, MOST_WORKERS)
    gpus = None if gpus is None else whole("session.explain(gpus=...)", gpus, 0, MOST_WORKERS)
    log, code = session._log, session._recorder.code
    if log.closed:
        raise log.closed_error("this session is closed: explain what is recorded before its end, or report on a run")
    with log.lock:
        records = needed_records(log.records, next(_looks))
        if tensors:
            wanted = _needed_by(tensors)
            records = [record for record in records if id(record) in wanted]
        session.costs.learn()
        with looking_in_program_order(log, records, code.ordered) as ordered:
            records = ordered
            built = build(0, ordered, code.requests, hints=code.call_costs.hints(ordered))
        sent = [one for one in built.sources if isinstance(one, Constant) and one.moved]
        left = tuple([DeviceTransfer(-1, -1, one.moved, "cpu", one.value.nbytes) for one in sent])
        sites = [record.site for record in records]
        return explain_submission(session, built.submission, sites, workers=workers, gpus=gpus, left=left)


def explain_submission(
    session: Session,
    submission: GraphSubmission,
    sites: Sequence[Site | None],
    *,
    workers: int | None = None,
    gpus: int | None = None,
    left: tuple[DeviceTransfer, ...] = (),
) -> Explanation:
    """Return the explanation of a graph that is about to be submitted; `sites` are the user's lines of its nodes, and
    `left` the values that left a device for it at the client.

    Raises:
        PlanError: no worker, here or there, can run one of the nodes; or there are more GPUs than workers.
    """
    observed, inputs, code = session._observed, session._recorder.inputs, session._recorder.code
    graph, driver, name_of = submission.graph, session._driver, session._name_of
    costs, cluster = driver.costs, driver.planning_cluster
    try:
        planned, residency = driver.preview(submission)
        elsewhere = None if workers is None and gpus is None else _elsewhere(graph, costs, cluster, workers, gpus)
    except PlanError as error:
        call_nodes(error, graph, sites, name_of)
        raise
    facts = explain_plan(
        planned.graph,
        residency,
        costs,
        cluster,
        planned.plan,
        staged=not inputs.by_reference,
        ordered=code.ordered,
    )
    return Explanation(
        plan=replace(facts, transfers=(*left, *facts.transfers)),
        graph=label_graph(planned.graph, name_of, sites),
        infer=tuple(SignatureWait(name, *waited) for name, waited in observed.first_runs.items()),
        hooks=tuple(observed.client_hooks.items()),
        elsewhere=elsewhere,
    )


def preview_submissions(session: Session, show: Callable[[Explanation], None]) -> None:
    """Call `show` with the explanation of each submission of a session before it is sent; if it raises, the submission
    is not sent. Submissions that only learn the outputs of a Function are sent unseen."""

    def preview(submission: GraphSubmission, sites: Sequence[Site | None]) -> None:
        session.costs.learn()
        show(explain_submission(session, submission, sites))

    session._submitter.preview = preview


def _elsewhere(graph: Graph, costs: Costs, cluster: Cluster, workers: int | None, gpus: int | None) -> OtherMachines:
    """Plan the graph for other machines, and simulate the plan. What is not said stays as it is here."""
    here = cluster.workers
    workers = len(here) if workers is None else workers
    gpus = min(workers, sum("cuda" in one.kinds for one in here)) if gpus is None else gpus
    planned, simulated = what_if(graph, costs, workers=workers, gpus=gpus, like=cluster)
    return OtherMachines(
        workers=workers,
        gpus=gpus,
        seconds=simulated.makespan,
        used=len({segment.worker for segment in planned.plan.segments}),
        segments=len(planned.plan.segments),
        utilisation=simulated.utilisation,
        moved_bytes=simulated.transferred_bytes,
        peak_saved=max(simulated.peak_saved, default=0),
    )


def _needed_by(tensors: Sequence[Tensor]) -> set[int]:
    """Return the ids of the records that the tensors need and that are not submitted."""
    stack = [value.record for tensor in tensors if type(value := tensor._data) is Pending]
    found: set[int] = set()
    while stack:
        record = stack.pop()
        if type(record) is NodeRecord and record.run < 0 and id(record) not in found:
            found.add(id(record))
            stack.extend(source[0] for source in (*record.sources, record.near) if isinstance(source, tuple))
    return found
