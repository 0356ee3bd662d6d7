"""The state machine of runs: events go in, commands come out.

It carries out plans and decides when values are dropped, without clock, thread or Ray.
"""
