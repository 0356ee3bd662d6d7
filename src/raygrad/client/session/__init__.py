"""The session: one program's connection to an executor, its recorder, and what waits for values.

The top of the client: it owns everything below for one program.
"""
