"""`gradcheck`: comparison of derivatives with finite differences, and further checks of a backward.

Used by tests and users; nothing in raygrad depends on it.
"""
