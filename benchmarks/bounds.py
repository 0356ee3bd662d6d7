"""A lower bound that counts communication: how much room there is above max(critical path, work / workers).

Rules of this file: valid for every schedule without copies of nodes on equal workers, and judged by the best schedules
of small graphs (tests/benchmarks/test_bounds.py). No planner is known here.

- A node that starts at s has on its own worker every source whose value would come from elsewhere after s, and those
  ran one after another: its *head* is the least s for which that is possible. Its *tail* is the same backwards.
- m workers that run a set of nodes have m first nodes and m last ones: m times the makespan is no less than the m least
  heads, all the work and the m least tails (J. Carlier, "Scheduling jobs with release dates and tails on identical
  machines to minimize the makespan", European Journal of Operational Research 29, 1987).
- What runs first on a worker, of all nodes, has all of its sources elsewhere: its *cold* head counts every edge.
- Where all that comes before a node must end before it and all that comes after must wait for it, bounds add up.
"""

from __future__ import annotations

import itertools

import numpy as np

from raygrad.scheduler.model.critical_path import lower_bound
from raygrad.scheduler.model.dag import Dag, Floats, Platform, dag_of

CUTS = 40
"""How many sets of late heads or long tails are tried."""


def communicating_bound(dag: Dag, platform: Platform) -> float:
    """Return a time below which no schedule on equal workers of speed 1 can be; never less than `lower_bound`."""
    if not (platform.speed == 1).all():
        raise ValueError(f"this bound is for workers of speed 1, got {platform.speed}")
    bound = lower_bound(dag, platform)
    cuts = barriers(dag)
    if len(cuts) > 2:
        parts = (part(dag, first, last) for first, last in itertools.pairwise(cuts))
        return max(bound, sum(communicating_bound(one, platform) for one in parts) + float(dag.seconds[cuts[-1]]))
    if len(platform) == 1 or not len(dag):
        return bound
    moved = dag.transfer * platform.slowness
    (head, cold_head), (tail, cold_tail) = heads(dag, moved), tails(dag, moved)
    bound = max(bound, float((head + dag.seconds + tail).max()))
    bound = max(bound, of_all(cold_head, dag.seconds, cold_tail, len(platform)))
    for late, other in ((head, tail), (tail, head)):
        for least in np.quantile(late, np.linspace(0, 1, CUTS, endpoint=False)):
            some = late >= least
            bound = max(bound, of_set(late[some], dag.seconds[some], other[some], len(platform)))
    return bound


def barriers(dag: Dag) -> list[int]:
    """Return the nodes that all earlier ones lead to and that lead to all later ones, if both the first and the last
    node of the graph are such; else none."""
    count = len(dag)
    over = np.zeros(count + 1, np.int64)  # how many edges lead over each node
    np.add.at(over, dag.source + 1, 1)
    np.add.at(over, dag.target, -1)
    starts, ends = np.diff(dag.before) == 0, np.diff(dag.after) == 0
    if not count or starts.sum() != 1 or ends.sum() != 1 or not (starts[0] and ends[-1]):
        return []
    return np.flatnonzero(np.cumsum(over)[:count] == 0).tolist()


def part(dag: Dag, first: int, last: int) -> Dag:
    """Return the graph from one barrier to the next, the time of the next left out."""
    edges = slice(int(dag.before[first + 1]), int(dag.before[last + 1]))
    seconds = dag.seconds[first : last + 1].copy()
    seconds[-1] = 0.0
    return dag_of(seconds, dag.source[edges] - first, dag.target[edges] - first, dag.transfer[edges])


def of_all(head: Floats, seconds: Floats, tail: Floats, workers: int) -> float:
    """Return the bound for all nodes on however many workers suit best."""
    used = min(workers, len(head))
    ends = np.sort(head)[:used].cumsum() + np.sort(tail)[:used].cumsum()
    return float(((seconds.sum() + ends) / np.arange(1, used + 1)).min())


def of_set(head: Floats, seconds: Floats, tail: Floats, workers: int) -> float:
    """Return Carlier's bound for a set of nodes; nothing for a set that leaves workers idle."""
    if len(head) < workers:
        return 0.0
    ends = np.partition(head, workers - 1)[:workers].sum() + np.partition(tail, workers - 1)[:workers].sum()
    return float(seconds.sum() + ends) / workers


def heads(dag: Dag, moved: Floats) -> tuple[Floats, Floats]:
    """Return, per node, a time before which it cannot start; and before which it cannot where no source is at hand."""
    head, cold = np.zeros(len(dag)), np.zeros(len(dag))
    for node in range(len(dag)):
        edges = slice(dag.before[node], dag.before[node + 1])
        head[node], cold[node] = earliest(head, dag.seconds, dag.source[edges], moved[edges])
    return head, cold


def tails(dag: Dag, moved: Floats) -> tuple[Floats, Floats]:
    """Return, per node, the least time from its end to the end of all; and the same where no reader is at hand."""
    tail, cold = np.zeros(len(dag)), np.zeros(len(dag))
    for node in range(len(dag) - 1, -1, -1):
        edges = dag.outgoing[dag.after[node] : dag.after[node + 1]]
        tail[node], cold[node] = earliest(tail, dag.seconds, dag.target[edges], moved[edges])
    return tail, cold


def earliest(since: Floats, seconds: Floats, sources: np.ndarray, moved: np.ndarray) -> tuple[float, float]:
    """Return the least time at which the values of `sources` can be on one worker, where those that would come last are
    made there, one after another; and the time at which they are on one that makes none."""
    nodes, at = np.unique(sources, return_inverse=True)  # several edges between two nodes: the slowest counts
    slowest = np.zeros(len(nodes))
    np.maximum.at(slowest, at, moved)
    comes = since[nodes] + seconds[nodes] + slowest
    order = np.argsort(-comes)
    nodes, comes = nodes[order], [*comes[order].tolist(), 0.0]
    best = comes[0]
    for here in range(1, len(nodes) + 1):
        kept = nodes[:here]
        kept = kept[np.argsort(-since[kept])]
        made = float((since[kept] + np.cumsum(seconds[kept])).max())
        best = min(best, max(made, comes[here]))
        if made >= best:
            break
    return best, comes[0]
