"""Ops that reduce: sums, extremes, norms, statistics, losses, pooling.

Each file declares ops with kernels, shape rules and derivatives.
"""
