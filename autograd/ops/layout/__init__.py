"""Ops that rearrange elements: shapes, joins, diagonals, strides, windows, padding, moves between devices.

Each file declares ops with kernels, shape rules and derivatives.
"""
