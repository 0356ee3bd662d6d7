"""User code: what a piece of it holds and reads, what it may do, and whether it is still what it was.

One walk (`visitor`) serves all observers: fingerprints, guards, captured state, effects, refusals. How code becomes
bytes and travels is in `pickling` and `shipping`, which ask the observers.
"""
