"""Linear algebra: matrix products, factorisations, solves, norms, einsum and Fourier transforms.

Each file declares ops with kernels, shape rules and derivatives. Convolutions are in `neural`.
"""
