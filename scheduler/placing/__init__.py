"""Placement of a graph of arrays on workers: which worker runs each node, and when."""
