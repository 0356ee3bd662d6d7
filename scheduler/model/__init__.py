"""The planner's data model: graphs with costs, workers with speeds and memories, and plans.

Everything else in the scheduler computes on these classes.
"""
