"""Dispatch: from the call of a built-in op to promotion, a kernel or a record, and a node of the backward graph.

The path of every op, eager or recorded.
"""
