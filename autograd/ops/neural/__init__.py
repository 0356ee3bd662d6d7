"""Ops of neural networks: activations, losses, normalisation, pooling, convolution, embedding, interpolation.

Each file declares ops with kernels, shape rules and derivatives.
"""
