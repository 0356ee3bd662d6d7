"""Functions made from the user's: with their jvp, vmap rule, saved-tensor hooks or registered kernels fused in.

A session records them as it records any Function.
"""
