"""The executor on Ray: actors, their processes, the messages to them and what links between them cost.

Only its `connection` module imports Ray.
"""
