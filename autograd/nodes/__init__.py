"""Nodes of the backward graph: of ops and leaves, with their hooks, anomaly detection, and what code may ask of a pass.

The engine walks them; dispatch and Functions make them.
"""
