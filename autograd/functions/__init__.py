"""User-written Functions: the class that users subclass, its context, and the checks on what it takes and returns.

`apply` here runs forward; a session records it instead.
"""
