"""Elementwise ops: arithmetic, comparison, complex numbers, rounding, and special functions, as `raygrad.<name>`.

Each file declares ops with kernels, shape rules and derivatives. Activations of networks are in `neural`.
"""
