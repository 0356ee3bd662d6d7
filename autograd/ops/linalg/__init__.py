"""Linear algebra: products, factorisations, solves, convolutions and Fourier transforms.

Each file declares ops with kernels, shape rules and derivatives.
"""
