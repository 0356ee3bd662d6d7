"""What serves each kind of device: NumPy for the host, CuPy for GPUs, with memory, staging and streams.

Only `cuda` imports CuPy.
"""
