"""Submissions: records as a graph with external inputs, the runs of such graphs, and what they return or raise.

Takes records from below; the session's submitter gives the result to the driver, and the run listener hears of its end.
"""
