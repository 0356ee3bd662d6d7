"""In-place changes: `add_`, `x[i] = y` and their kind, and what becomes of views of the changed memory.

It computes new values by dispatch; version counters and the bookkeeping of views are in `storage`.
"""
