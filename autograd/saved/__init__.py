"""Saved tensors: the slots of nodes, saved-tensor hooks, and the handles that users see.

Stands between nodes and the code that makes them.
"""
