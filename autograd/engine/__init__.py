"""The engine: `backward()` and `grad()`, and the one traversal that eager, recorded and differentiated passes share.

It calls nodes from roots to leaves, sums gradients, and runs hooks.
"""
