"""Segments: blocks of a placed graph that one worker runs in one call, and the transfers between them.

A placement comes in; segments, transfers, a timetable and one program per segment go out.
"""
