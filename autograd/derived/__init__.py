"""Function classes generated from a user's Function or op: combined with its jvp, its vmap rule, saved-tensor hooks, or
registered kernels.

A session records them as it records any Function.
"""
