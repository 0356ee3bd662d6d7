"""Placement: which worker runs each node, and when.

- `place`: placement of a recorded graph; `constraints`: what it must satisfy, as lists and as arrays;
- `branches`: the branches of an ensemble; `shares`: their division into contiguous shares;
- `scheduling`: `schedule`, the placement of a task graph without specs or sessions;
- `problem`: a task graph as adjacency lists, in either direction of time, with groups and allowed workers;
- `listing`: one pass of list scheduling; `refining`: a search by many passes, within a budget;
- `coarse`: clustering of a large graph; `spreading`: list scheduling for many workers.
"""
