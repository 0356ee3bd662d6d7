"""Ops that select elements: indices, gathers, masks, sorting, scans and interpolation.

Each file declares ops with kernels, shape rules and derivatives.
"""
