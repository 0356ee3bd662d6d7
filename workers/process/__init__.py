"""One worker as a process: the host of programs and pinned values, its order of calls, threads, GPUs and records.

Executors drive a host, directly or through an actor.
"""
