"""raygrad: autograd graphs over NumPy and CuPy arrays on a Ray cluster."""
