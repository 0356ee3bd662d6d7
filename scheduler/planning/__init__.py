"""From a graph to a plan with its programs: the planner, its cache, and replanning after changed costs or workers.

It calls placement, memory and segments in turn; the driver and `session.explain` ask it for plans.
"""
