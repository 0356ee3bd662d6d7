"""Memory in a plan: the bytes that live on each worker for a node order, and what is spilled or rematerialised to fit.

Stands between segments and placement: it chooses each worker's node order under that worker's limits.
"""
