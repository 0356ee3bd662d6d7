"""Runs of plans in virtual time: the real state machine with simulated workers, links and client.

It is the scheduler's test bench and answers how a plan would run on other machines.
"""
