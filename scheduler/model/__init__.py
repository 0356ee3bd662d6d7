"""The planner's model of a graph: nodes and values with costs, workers with speeds and memories, and the plan itself.

Everything else in the scheduler computes on what is defined here.
"""
