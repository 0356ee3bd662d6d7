"""Write saga.json: what HEFT and CPOP of `anrg-saga` make of the graphs in graphs.py.

    pip install anrg-saga        # in an environment of its own: it brings solvers and type checkers, 800 MB
    python tests/scheduler/placing/record_saga.py            # with --check: compare with what is written there

Three things of saga 2.0.2 have to be known to compare with it:

- Its mean time of an edge counts each worker's infinitely fast link to itself among the links: (workers - 1) /
  (workers + 1) of the time between two different workers. Our `share` says the same.
- Its downward rank adds the time of the node itself where the paper (and ours) adds that of the node before, so that
  the nodes of the critical path have unequal priorities. Put right here, except in "cpop_as_released", which is
  recorded for plain graphs: with one source and equal nodes both are the same.
- Of equally good workers it takes the first of a set, which changes from process to process. Here sets of workers are
  ordered by number, so that ties go to the lowest, as ours do. Nodes of equal rank would be a matter of chance too: of
  plain graphs only CPOP is recorded, whose priorities still differ.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import logging
import platform
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from graphs import AGAINST_SAGA, Case, drawn


def downward_rank(network: Any, tasks: Any) -> dict[str, float]:
    """The downward rank of Topcuoglu, Hariri and Wu."""
    ranks: dict[str, float] = {}
    time = {task.name: mean(task.cost / node.speed for node in network.nodes) for task in tasks.tasks}
    for task in tasks.topological_sort():
        ranks[task.name] = max(
            (
                ranks[edge.source] + time[edge.source] + mean(edge.size / link.speed for link in network.edges)
                for edge in tasks.in_edges(task.name)
            ),
            default=0.0,
        )
    return ranks


def mean(values: Any) -> float:
    several = list(values)
    return sum(several) / len(several)


def figures(case: Case) -> dict[str, float]:
    """The makespans of one graph."""
    names = ("", ".schedulers.heft", ".schedulers.cpop")
    modules: list[Any] = [importlib.import_module(f"saga{name}") for name in names]
    saga, heft, cpop = modules
    saga.NetworkNode.__hash__ = lambda self: int(self.name)
    graph = drawn(case)
    workers = [(str(worker), speed) for worker, speed in enumerate(graph.speed)]
    links = [(one, other, 1.0) for one, _ in workers for other, _ in workers if one < other]
    network = saga.Network.create(workers, links)
    tasks = saga.TaskGraph.create(
        [(str(node), seconds) for node, seconds in enumerate(graph.seconds)],
        [(str(one), str(two), time) for one, two, time in zip(graph.source, graph.target, graph.transfer, strict=True)],
    )
    found: dict[str, float] = {}
    if case.plain:
        cpop.cpop_ranks.cache_clear()
        found["cpop_as_released"] = cpop.CpopScheduler().schedule(network, tasks).makespan
    else:
        found["heft"] = heft.HeftScheduler().schedule(network, tasks).makespan
    released, cpop.downward_rank = cpop.downward_rank, downward_rank
    cpop.cpop_ranks.cache_clear()
    found["cpop"] = cpop.CpopScheduler().schedule(network, tasks).makespan
    cpop.downward_rank = released
    return found


def main() -> None:
    logging.disable(logging.WARNING)  # about graphs of several sources, each time
    file = Path(__file__).with_name("saga.json")
    made = [{**case._asdict(), **figures(case)} for case in AGAINST_SAGA]
    if "--check" in sys.argv[1:]:
        assert json.loads(file.read_text())["makespans"] == made
        return
    versions = {name: importlib.metadata.version(name) for name in ("anrg-saga", "networkx", "numpy")}
    lines = ",\n".join(json.dumps(line) for line in made)
    about = json.dumps({**versions, "python": platform.python_version()})
    file.write_text(f'{{"versions": {about},\n"makespans": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
