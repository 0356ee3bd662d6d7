"""Values in all their forms: in memory, packed for another process, on disk, and what stands for them elsewhere.

Nothing here decides where a value is, or runs the steps that make it.
"""
