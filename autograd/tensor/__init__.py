"""The tensor: its data, its place in the backward graph and its gradient, and what makes one.

Methods that are ops are joined to it in `methods`.
"""
