"""The interpreter of programs: steps compiled once to closures over slots, then run in order.

Runs built-in ops, user Functions and their derivatives, and hooks.
"""
