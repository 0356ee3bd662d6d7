"""Placement of a graph of arrays on workers: which worker runs each node, and when.

- `scheduling`: `schedule`, the entry;
- `problem`: a graph as lists, forwards and backwards in time, and where its nodes may go;
- `listing`: one pass of list scheduling, each node where it suits best, idle gaps included;
- `refining`: passes over the best schedules known, within a budget;
- `baselines`: HEFT, CPOP and PEFT after their papers, to compare with;
- `coarse`: a smaller graph for a large one;
- `spreading`: list scheduling that looks at a few of many workers.
"""
