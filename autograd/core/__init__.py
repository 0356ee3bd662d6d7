"""Foundations of autograd: dtypes and promotion, array layouts, thread modes, hooks, gradient sums, recorder interface.

Nothing here knows tensors, nodes or ops.
"""
