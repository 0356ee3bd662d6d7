"""The state machine of runs: events go in, commands come out.

It carries out plans, decides when a value is dropped, and knows no clock, thread or Ray.
"""
