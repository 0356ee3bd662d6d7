"""The planner and the state machine of runs: pure functions and data, without clock, thread, socket or Ray.

Terms:

- A *plan* assigns the nodes of a graph, forward and backward together, to workers, and fixes their order and the
  transfers between them. It is a pure function of (graph, residency, costs, cluster, seed); `planner.Planner` makes
  and caches plans.
- A *segment* is a block of nodes that one worker runs in one call; `lowering` turns it into a `Program`.
- A *run* is one submission of a plan: numbered, made of segments, each tried in numbered *attempts*.
- An *event* says what has happened (`events`, past tense), a *command* what is to be done (`commands`, imperative).
- The *machine* takes events and returns commands: `machine.handle(*events) -> list[Command]`. A driver in `workers`
  turns commands into calls, and their results into events; it decides nothing.

The sub-rooms: `model` (graph, costs, cluster and plan as data), `planning` (the planner, its cache, replanning),
`placing` (the worker of each node), `memory` (node orders and spilling under memory limits), `segments` (cutting into
segments, transfers, timetable, lowering), `machine` (the state machine), `simulation` (runs in virtual time) and
`explain` (facts about plans and runs).
"""

if not __name__.startswith("raygrad."):  # found through the repository's root, where the folder is called `scheduler`
    raise ImportError(
        "this is a part of raygrad and has no import name of its own: use `import raygrad.scheduler`", name=__name__
    )
