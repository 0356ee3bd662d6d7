"""Simulated runs of plans: the real state machine in virtual time, with simulated workers, links and client.

It is the machine's test bench, and predicts how a plan would run on other machines.
"""
