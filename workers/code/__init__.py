"""User code on its way to a worker: fingerprints, pickling by name or by value, warnings and exceptions back.

The lowest sub-room of the workers: everything that runs user code stands on it.
"""
