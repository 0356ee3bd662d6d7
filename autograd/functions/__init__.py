"""User-written Functions: the class that users subclass, its context, and the checks on its arguments and outputs.

`apply` here runs forward; a session records it instead.
"""
