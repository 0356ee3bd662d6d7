"""Layout ops, which move elements or view them differently: shapes, joins, diagonals, strides, windows, padding,
devices.

Each file declares ops with kernels, shape rules and derivatives.
"""
