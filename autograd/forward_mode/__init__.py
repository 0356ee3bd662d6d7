"""Forward mode: what ops and Functions do to tangents.

Levels are opened by `autograd.forward_ad` and by transforms.
"""
