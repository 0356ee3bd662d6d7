"""A simulated GPU over NumPy: arrays, streams and a namespace that behave as CuPy's, copies counted.

Stands in for a GPU in tests and in programs on machines without one.
"""
