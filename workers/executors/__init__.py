"""Executors: how calls reach workers, in this process or on Ray, and the driver that turns commands into calls.

The only sub-room that the client's sessions talk to.
"""
