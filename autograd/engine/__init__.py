"""The engine: `backward()` and `grad()`, and the one traversal that eager, recorded and differentiated passes share.

Asks each node for gradients, sums them and runs hooks.
"""
