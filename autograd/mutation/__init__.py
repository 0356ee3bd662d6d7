"""Changes in place: one mechanism for `add_`, `x[i] = y` and their kind, and what becomes of views of the memory.

Stands on dispatch, which it calls for the new values.
"""
