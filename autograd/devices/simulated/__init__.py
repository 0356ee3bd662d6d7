"""Simulated GPU over NumPy: arrays, streams and a namespace that behave as CuPy's, with counted transfers.

It serves "cuda" in tests and in programs on machines without a GPU, if it is enabled. Its streams can be late, which
makes a missing synchronisation visible.
"""
