"""The server: who comes in, sessions and their processes, quotas.

`server` listens, `session_host` has one session wherever that lives, and `served_session` runs it."""
