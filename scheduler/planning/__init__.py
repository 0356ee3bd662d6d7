"""From a graph to a plan and its programs: the planner, its cache, and plans made again after costs or workers changed.

Calls placement, segments and memory in turn; the driver and `explain` ask it for plans.
"""
