"""`session.compile`: one recorded call, guarded and replayed with other arguments.

Stands between submissions, which it replays, and the session, which offers it.
"""
