"""Elementwise ops: arithmetic, comparison, special functions and activations.

Each file declares ops with kernels, shape rules and derivatives.
"""
