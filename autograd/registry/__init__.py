"""The registry of ops: declarations, kernels per (op, device, dtype), derivative rules and dtype constraints.

Op modules fill it when they are imported; dispatch reads it.
"""
