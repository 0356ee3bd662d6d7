"""Indexing ops: `x[...]`, gather and scatter, masked selection, distinct elements.

Each file declares ops with kernels, shape rules and derivatives. Sorting and cumulative ops are in `reduction`.
"""
