"""Ops of neural networks: activations, losses, normalisation, pooling, convolution, embedding, attention,
interpolation.

Most are functions of `raygrad.nn.functional`. Each file declares ops, or composes others.
"""
