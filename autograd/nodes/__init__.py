"""Nodes of the backward graph: of ops, leaves and views, with their hooks and what a pass may ask of them.

The engine walks them; functions and dispatch make them.
"""
