"""Measured costs: a running estimate of what nodes, links and calls cost, learned from the records of runs.

A session feeds it with each run, the planner reads it as `Costs`, and `session.costs.save` keeps it for other
sessions. The time of a node is learned as a factor on its prior, per kind (`Costs.kind_of`), so that sizes within a
kind still matter; of user Functions also per value of non-tensor arguments (`costs_per_argument`). How the records of a
run become times of nodes is in `node_samples`; later runs with other mixtures of short nodes correct their division.
From a host with another clock than the client's only the times of nodes are learned.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Final, NamedTuple, cast

from raygrad.errors import CostsError
from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.program import Record

from .cost_classes import CostClasses, PlanCostClasses, cost_classes_of
from .costs import Costs
from .costs_per_argument import KnownFunctions, ValueCosts
from .function_costs import CostKind
from .node_samples import NodeSamples
from .plan import Cluster, Plan, Segment
from .running_estimates import (
    MIN_FACTOR,
    NEWEST_WEIGHT,
    SLOWER_WEIGHT,
    Estimate,
    PlanTimes,
    estimates_data,
    estimates_of,
    finite,
)

VERSION: Final = 2
"""The version of the format of `as_data`. Version 1 had user Functions under other kinds, which nobody would find."""

MAX_LINK_FACTOR: Final = 4.0
"""One measurement of a link counts at most as this many times what was known: a pause of the machine is no link."""

MAX_FIRST_RUN_FACTOR: Final = 2.0
"""The most additional time of a plan's first run, in predicted times of the plan."""

RUNS_PER_MEASUREMENT: Final = 8
"""The first runs of a plan, this many, are measured, and then one in as many."""

MAX_HISTORIES: Final = 64
"""Plans whose nodes' kinds are remembered, as many as the planner keeps."""


def no_values(_: int) -> str:
    """Return the non-tensor arguments of a node where none are known."""
    return ""


class TimedRecord(NamedTuple):
    """A segment's record, and when its call was sent and the record came, by the client's clock."""

    record: Record
    sent: float
    came: float
    awaited: bool = True
    """The client was waiting when the record came; else it came earlier than `came`, when it was taken in."""
    spent: float = 0.0
    """Seconds that the client's thread worked on the call, to send it and to take in its record."""

    @property
    def ended(self) -> float:
        """The worker's clock when the outputs were packed."""
        began, inputs, steps, outputs, *_ = self.record.timing
        return began + inputs + steps + outputs


class _PlanHistory(NamedTuple):
    """The cost classes of a plan's nodes, and the times of its runs."""

    kinds: CostClasses
    segments: list[Counter[int]]
    """Per segment, how many nodes it has of each class."""
    span: PlanTimes
    """The times of its undisturbed runs."""


class MeasuredCosts:
    """See the head of this file. Not safe for use by several threads at once.

    Args:
        prior: what is believed before anything is measured.
    """

    def __init__(self, prior: Costs | None = None) -> None:
        self.prior = Costs() if prior is None else prior
        self.kinds: dict[str, Estimate] = {}
        """By kind of node, what was measured."""
        self.early: dict[str, Estimate] = {}
        """By kind of user Functions that no run which has ended has measured, what runs under way have shown."""
        self.values = ValueCosts()
        """The same of user Functions, per value of their non-tensor arguments."""
        self._functions = KnownFunctions()
        self.runs = 0
        """Runs that were measured."""
        self.pace = 1.0
        """What runs take over what is predicted from their parts: what the machine does beside them, and what no part
        accounts for."""
        self._paced = 0
        """How often that was entered."""
        self.news_seconds = 0.0
        """What the first run of a plan takes longer than is predicted from its parts, per segment: programs are sent
        and read, and caches are cold."""
        self._news = 0
        """How often that was entered."""
        self.latest = self.prior
        """What `costs` has returned last. Any thread may ask."""
        self._changed = False
        self._plans: OrderedDict[bytes, _PlanHistory] = OrderedDict()
        self._samples = NodeSamples()
        self._arriving: tuple[bytes, CostClasses] | None = None
        """The plan whose record arrived last before its run had ended, and the classes of its nodes."""

    def costs(self) -> Costs:
        """Return what is known now; of the next epoch if something was learned since the last time."""
        if self._changed:
            self._changed = False
            self.latest = replace(
                self.latest,
                epoch=self.latest.epoch + 1,
                factors={kind: one.factor for kind, one in self.kinds.items()},
                runs={kind: one.count for kind, one in self.kinds.items()},
                functions=self._functions.table(lambda kind: self.kinds.get(kind, self.early.get(kind)), self.values),
            )
        return self.latest

    def settled(self, names: Mapping[str, float]) -> bool:
        """Return whether measurements agree for the kinds of node that take most of the given seconds."""
        unsettled = 0.0
        for name, seconds in names.items():
            one = self.kinds.get(name)
            if one is None or one.count < 2 or one.spread > 0.5:
                unsettled += seconds
        return unsettled <= 0.1 * sum(names.values())

    def wants(self, plan: Plan) -> bool:
        """Count a run of a plan that has ended, and return whether to learn from it. Of many runs not each is measured,
        because learning takes time that matters for small runs."""
        known = self._plans.get(plan.hash)
        if known is None:
            return True
        known.span.ended += 1
        return known.span.ended < RUNS_PER_MEASUREMENT or known.span.ended % RUNS_PER_MEASUREMENT == 0

    def span_of(self, plan: Plan) -> PlanTimes:
        """Return the run times of a plan so far, as far as they are remembered."""
        known = self._plans.get(plan.hash)
        return PlanTimes() if known is None else known.span

    def counted(self, plan: Plan) -> PlanCostClasses | None:
        """Return how many nodes of which kinds a plan has; None if no run of it was measured yet."""
        known = self._plans.get(plan.hash)
        return None if known is None else PlanCostClasses(known.kinds.kinds, known.segments)

    def ran(self, seconds: float, predicted: float) -> None:
        """Enter the measured run time of a plan and the one predicted from its parts."""
        self._paced += 1
        self.pace += max(NEWEST_WEIGHT, 1.0 / self._paced) * (
            min(max(seconds / max(predicted, 1e-9), 1.0 / MAX_LINK_FACTOR), MAX_LINK_FACTOR) - self.pace
        )

    def first_run(self, plan: Plan) -> float:
        """Return the predicted time of the first run of a plan, which is longer than that of later ones."""
        return plan.predicted_seconds + min(
            self.news_seconds * len(plan.segments), MAX_FIRST_RUN_FACTOR * plan.predicted_seconds
        )

    # ---- learning ---------------------------------------------------------------------------------------------------

    def links_were(self, **figures: Any) -> None:
        """Enter figures that the executor measured before the first run: fields of `Costs`."""
        self.latest = replace(self.latest, **figures)
        self._changed = True

    def arrived(self, graph: Graph, plan: Plan, record: Record) -> None:
        """Enter what a record of a run under way shows of user Functions of which nothing was measured: a plan that is
        made before the run has ended need not guess. The end of the run replaces it (`take`)."""
        if plan.hash in self._plans or not record.timing.nodes:
            return
        if self._arriving is None or self._arriving[0] != plan.hash:
            self._arriving = plan.hash, cost_classes_of(graph, self.prior)
        node, kinds = self._arriving[1]
        for index, _, seconds in record.timing.nodes:
            kind = kinds[node[index]]
            if kind.family and kind.name not in self.kinds:
                factor = max(seconds / kind.prior, MIN_FACTOR)
                self.early.setdefault(kind.name, Estimate()).take(factor, seconds, first=True)
                self._keep(kind.name)
                self._changed = True

    def take(
        self,
        graph: Graph,
        plan: Plan,
        calls: Sequence[TimedRecord],
        cluster: Cluster,
        here: str,
        *,
        alone: bool = True,
        values: Callable[[int], str] = no_values,
    ) -> None:
        """Enter a run that has ended well: its calls, in any order. `here` is the client's host; `alone` that no other
        run was under way before it had ended; `values` returns the non-tensor arguments of a node of a user Function,
        as a text."""
        calls = sorted(calls, key=lambda call: call.record.segment)
        self.take_calls(graph, plan, calls, cluster, here, alone=alone)
        known = self._plans[plan.hash]
        for call in calls:
            self._samples.add_segment(
                known.kinds, known.segments[call.record.segment], call.record, values, self._seconds
            )
        for name, value, factor, seconds, first in self._samples.take():
            factor = max(factor, MIN_FACTOR)
            if value:
                self.values.take(name, value, factor, seconds, first=first)
            else:
                self.early.pop(name, None)
                self.kinds.setdefault(name, Estimate()).take(factor, seconds, first=first)
            self._keep(name)
        self.runs += 1

    def take_calls(
        self, graph: Graph, plan: Plan, calls: Sequence[TimedRecord], cluster: Cluster, here: str, *, alone: bool
    ) -> None:
        """Enter what a run that has ended well shows of its plan, of calls and links; of nodes nothing, which somebody
        else measures (`use_data`). Arguments as for `take`."""
        known, new = self._history(graph, plan)
        calls = sorted(calls, key=lambda call: call.record.segment)
        known.span.measured += 1
        quiet = bool(calls) and alone
        hosts = [worker.host for worker in cluster.workers]
        here_all = len(calls) == len(plan.segments) and all(hosts[segment.worker] == here for segment in plan.segments)
        if quiet and (here_all or all(call.awaited for call in calls)):
            seconds = max(map(self._over, calls)) - min(call.sent for call in calls)
            known.span.take(seconds)
            if new and all([not kind.family or kind.name in self.kinds for kind in known.kinds.kinds]):
                self._news += 1
                more = (seconds - plan.predicted_seconds) / len(plan.segments)
                self.news_seconds = max(self.news_seconds + max(NEWEST_WEIGHT, 1.0 / self._news) * more, 0.0)
        if here_all:
            self._links(plan, calls, here, quiet=quiet, new=new)
        if not new:
            self._client(calls)
        self._changed = True

    def _history(self, graph: Graph, plan: Plan) -> tuple[_PlanHistory, bool]:
        """Return what is remembered of a plan, and whether that begins now."""
        known = self._plans.get(plan.hash)
        if known is not None:
            return known, False
        kinds = cost_classes_of(graph, self.prior)
        counts = [Counter([kinds.node[index] for index in segment.nodes]) for segment in plan.segments]
        known = self._plans[plan.hash] = _PlanHistory(kinds, counts, PlanTimes())
        if len(self._plans) > MAX_HISTORIES:
            self._plans.popitem(last=False)
        return known, True

    def _keep(self, kind: str) -> None:
        """Take note that a kind of node was measured, and forget another one for it if there are too many."""
        if gone := self._functions.surplus(kind):
            self.kinds.pop(gone, None)
            self.early.pop(gone, None)
            self.values.forget(gone)

    def _over(self, call: TimedRecord) -> float:
        """Return when the client had a record, or would have had it if it had waited."""
        if call.awaited:
            return call.came
        return min(call.came, call.ended + self.latest.return_seconds)

    def _seconds(self, kind: CostKind) -> float:
        estimate = self.kinds.get(kind.name)
        return kind.prior * (1.0 if estimate is None else estimate.factor)

    def _links(self, plan: Plan, calls: Sequence[TimedRecord], here: str, *, quiet: bool, new: bool) -> None:
        """Enter what passed between segments. Of what a segment may have waited for, what came last is what it did
        wait for; of a run that others were in the way of, only the calls' own times tell something. In the first run
        of a plan calls bring programs, too: how long a worker waits for another is seen, but for its first call."""
        costs = self.latest
        began = [call.record.timing.began for call in calls]
        ended = [call.ended for call in calls]
        free: dict[int, float] = {}
        for number, segment in enumerate(plan.segments):
            timing = calls[number].record.timing
            size = segment.bytes_in + segment.bytes_out
            own = max(timing.inputs + timing.outputs - size / costs.bandwidth, 0.0)
            cause, waited, known = self._cause(plan, segment, calls[number].sent, ended, free)
            waited = max(began[number] - waited, 0.0)
            if cause == "call_seconds":  # nothing but the worker was in the way: what is between two calls is all seen
                if not new:
                    self._move("call_seconds", own + waited, costs.call_seconds)
            elif quiet and (not new or segment.worker in free):
                self._move(cause, waited, known)
                link = self.latest.links.get((here, here))
                if link is not None:
                    link = link._replace(hop_seconds=self.latest.hop_seconds)
                    self.latest = replace(self.latest, links={**self.latest.links, (here, here): link})
            free[segment.worker] = ended[number] + segment.bytes_out / costs.store_bandwidth
            if number and quiet and not new:
                between = calls[number].sent - calls[number - 1].sent
                if 0.0 <= between < BURST_SECONDS:
                    self._move("submit_seconds", between, self.latest.submit_seconds)
        last = max(range(len(calls)), key=lambda number: calls[number].came, default=-1)
        if quiet and last >= 0 and calls[last].awaited:
            self._move("return_seconds", max(calls[last].came - ended[last], 0.0), self.latest.return_seconds)

    def _client(self, calls: Sequence[TimedRecord]) -> None:
        """Enter the client's time for the calls of a run."""
        if calls:
            spent, known = sum(call.spent for call in calls) / len(calls), self.latest.client_seconds
            self.latest = replace(
                self.latest, client_seconds=known + (NEWEST_WEIGHT if known else 1.0) * (spent - known)
            )

    def _cause(
        self, plan: Plan, segment: Segment, sent: float, ended: Sequence[float], free: Mapping[int, float]
    ) -> tuple[str, float, float]:
        """Return what a segment waited for last, since when it could have started but for that, and its known time."""
        costs = self.latest
        found = [("send_seconds", sent, costs.send_seconds)]
        if segment.worker in free:
            found.append(("call_seconds", free[segment.worker], 0.0))
        for source in segment.after:
            found.append(("follow_seconds", ended[source], costs.follow_seconds))
        for source, _ in segment.imports:
            moved = ended[source] + plan.segments[source].bytes_out / costs.bandwidth
            if plan.segments[source].worker == segment.worker:
                found.append(("follow_seconds", moved, costs.follow_seconds))
            else:
                found.append(("hop_seconds", moved, costs.hop_seconds))
        return max(found, key=lambda one: one[1] + one[2])

    def _move(self, name: str, measured: float, known: float) -> None:
        """Move one figure of the links towards what was measured."""
        weight = NEWEST_WEIGHT if measured < known else SLOWER_WEIGHT
        measured = min(measured, MAX_LINK_FACTOR * max(known, MIN_LINK_SECONDS))
        self.latest = replace(self.latest, **{name: known + weight * (measured - known)})

    # ---- keeping ----------------------------------------------------------------------------------------------------

    def as_data(self) -> dict[str, Any]:
        """Return all that was measured as plain data, for `from_data`."""
        costs = self.costs()
        return {
            "raygrad costs": VERSION,
            "links": {name: rate for name in LINK_FIGURES if isfinite(rate := getattr(costs, name))},
            "nodes": estimates_data(self.kinds),
            "values": {kind: estimates_data(self.values.of(kind)) for kind in sorted(self.values)},
        }

    def use_data(self, data: Any, *, links: bool = True) -> None:
        """Take over what `as_data` returned in another session, with `links` theirs, too: an executor that measures its
        own says so later.

        Raises:
            CostsError: it is none of that, or of another version.
        """
        if not isinstance(data, dict) or "raygrad costs" not in data:
            raise CostsError("these are no costs that `session.costs.save` has written")
        body = cast("dict[str, Any]", data)
        if body["raygrad costs"] != VERSION:
            raise CostsError(
                f"the costs are of version {body['raygrad costs']!r}; this raygrad reads {VERSION}: measure again, and "
                "save what this version has measured"
            )
        try:
            figures = {name: finite(rate) for name, rate in body["links"].items() if name in LINK_FIGURES}
            if 0.0 in (figures.get(name) for name in LINK_FIGURES if name.endswith("bandwidth")):
                raise ValueError("a bandwidth is 0")
            kinds = estimates_of(body["nodes"])
            values = {str(kind): estimates_of(some) for kind, some in body["values"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CostsError(f"the costs are damaged: {type(error).__name__}: {error}") from error
        self.kinds.update(kinds)
        self.values.update(values)
        for kind in kinds:
            self.early.pop(kind, None)
        for kind in (*kinds, *values):
            self._keep(kind)
        self.links_were(**figures if links else {})


LINK_FIGURES: Final = (
    "call_seconds",
    "hop_seconds",
    "bandwidth",
    "give_bandwidth",
    "store_bandwidth",
    "send_seconds",
    "return_seconds",
    "submit_seconds",
    "client_seconds",
    "follow_seconds",
)
"""The fields of `Costs` that measuring changes, beside the factors of nodes."""

BURST_SECONDS: Final = 0.005
"""Calls sent within this time of each other were sent one after the other, with nothing between."""

MIN_LINK_SECONDS: Final = 20e-6
"""What is known of a link is taken to be at least this where a measurement is held against it."""
