"""The scheduler room: the planner and the state machine. Pure: it knows no clock, thread, socket or Ray.

Its nouns:

- A *plan* says which worker runs which nodes of a graph, forward and backward together, in which order, and what
  crosses; it is a pure function of (graph, residency, costs, cluster, seed). `planner.Planner` makes and keeps plans.
- A *segment* is a block of nodes that one worker runs by one call; `lower` turns it into a `Program` for the worker.
- A *run* is one submission of a plan: numbered, made of segments, each tried in numbered *attempts*.
- An *event* is what has happened (`events`, past tense); a *command* is what shall be done (`commands`, imperative).
- The *machine* takes events and gives commands: `machine.handle(*events) -> list[Command]`. A driver (in the workers
  room) turns commands into work and work into events; it decides nothing.
"""

if not __name__.startswith("raygrad."):  # found through the repository's root, where the folder is called `scheduler`
    raise ImportError(
        "this is a part of raygrad and has no import name of its own: use `import raygrad.scheduler`", name=__name__
    )
