"""Submissions: recorded nodes as a graph with external inputs, its run, and what comes back or fails.

Takes records, and gives the driver what it runs.
"""
