"""`gradcheck`: derivatives against finite differences, and what else a backward has to keep.

Used by tests and users; nothing in raygrad depends on it.
"""
