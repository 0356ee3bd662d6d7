"""Reductions and ops along dimensions: sums, extremes, norms, statistics, sorting, cumulative ops.

Each file declares ops with kernels, shape rules and derivatives. Losses and pooling are in `neural`.
"""
