"""User Functions in a session: call signatures, what runs showed of them, their outputs and their derivatives.

Turns one `apply` or one hook into records.
"""
