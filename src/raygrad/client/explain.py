"""What would be submitted now, explained without being submitted.

Rules of this file: it changes nothing: recorded nodes stay recorded, the run's number is not used up. The plan that is
made is kept like any other, so that a submission of the same graph finds it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from raygrad.autograd.recording import Pending
from raygrad.autograd.tensor import Tensor
from raygrad.report.explanation import Explanation, Waited
from raygrad.report.shown import shown
from raygrad.scheduler.explain import explain_plan

from .records import NodeRecord
from .submission import build, needed_records

if TYPE_CHECKING:
    from .session import Session

_looks = itertools.count(-2, -1)
"""Marks what one explanation needs; no run has such a number."""


def explain(session: Session, tensors: Sequence[Tensor]) -> Explanation:
    """Return the explanation of what would be submitted now for `tensors`, or of all that would be.

    Raises:
        TypeError: one of them is no tensor.
        PlanError: no worker can run one of the nodes.
    """
    for tensor in tensors:
        if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"explain takes tensors, got {type(tensor).__name__}")
    recorder = session._recorder
    with recorder.lock:
        records = needed_records(recorder.records, next(_looks))
        if tensors:
            wanted = _needed_by(tensors)
            records = [record for record in records if id(record) in wanted]
        submission = build(0, records).submission
        graph = submission.graph
        planned, residency = session._driver.preview(submission)
        planner = session._driver.planner
        return Explanation(
            plan=explain_plan(graph, residency, planner.costs, planner.cluster, planned.plan),
            graph=shown(graph, session._driver.executor.name_of, [record.site for record in records]),
            infer=tuple(Waited(name, *waited) for name, waited in session.resolved.items()),
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
