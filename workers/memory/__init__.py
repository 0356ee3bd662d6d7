"""A worker's memory while it runs calls: input binding, eviction, spilling and rematerialisation within limits.

The host asks it before it unpacks or runs anything that needs bytes.
"""
