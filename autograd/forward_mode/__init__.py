"""Forward-mode differentiation: the propagation of tangents through ops and Functions.

Levels are opened by `autograd.forward_ad` and by transforms.
"""
